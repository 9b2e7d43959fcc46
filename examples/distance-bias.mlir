// A bias that grows with the distance of query and key, steeper in each query
// head than in the one after it, and no key ahead of the query by more than 128.
//
// Source: ALiBi, here with distances in both directions; its slopes for 32 heads
// are 2^(-(h + 1) / 4). An example of the form: LLaDA and Dream have RoPE.

heddle.schedule @distance_bias {
  attend dense scores(%logit, %query, %key, %head) {
    %one = arith.constant 1 : i32
    %quarter = arith.constant -0.25 : f32
    %most = arith.constant 128 : i32
    %none = arith.constant 0xFF800000 : f32 // minus infinity
    %ahead = arith.subi %key, %query : i32
    %distance = math.absi %ahead : i32
    %far = arith.sitofp %distance : i32 to f32
    %next = arith.addi %head, %one : i32
    %place = arith.sitofp %next : i32 to f32
    %power = arith.mulf %place, %quarter : f32
    %slope = math.exp2 %power : f32
    %bias = arith.mulf %slope, %far : f32
    %biased = arith.subf %logit, %bias : f32
    %hidden = arith.cmpi sgt, %ahead, %most : i32
    %masked = arith.select %hidden, %none, %biased : f32
    yield %masked
  }
}
