// Composed: columns for what is far, a window for what is near, sinks.
//
// A key that several parts hold counts once. The columns keep 10% where
// pulsecol.mlir keeps 20%: they need not spend keys on a query's neighbours.

heddle.schedule @columns_window_sinks {
  %refresh = cadence uniform(window = 0.3, count = 16)
  %cols = select columns(keep = 0.1, group = 64) by mean_probability on %refresh
  %near = window(128)
  %first = sinks(4)
  %pairs = union %cols, %near, %first
  attend pairs(%pairs)
}
