llvm.func @undivided(%keys: !llvm.ptr<1>, %n: i32, %stride: i64) {
  %k = warp.load %keys[%n] stride(%stride) limit(%n) : !llvm.ptr<1>, !warp.tile<64, 64, bf16>
  llvm.return
}
