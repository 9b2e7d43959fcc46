heddle.schedule @first {
  attend dense scores(%logit) {
    yield %logit // no } here
  attend dence
}

heddle.schedule @second {
  attend dense

heddle.schedule @third
  attend dense scores(%logit)
    yield %logit
  }
}

heddle.schedule @fourth {
  %c = cadence every(4)
}
  attend dense
}
}

heddle.schedule @fifth {
  attend dense
// the end
