// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{parameter 'keep' has no value; write what it is when nothing else is set, such as keep = 20 percent}}
heddle.schedule @p(keep) {
  attend dense
}

// -----

// expected-error@+1 {{expected a parameter, such as keep = 20 percent}}
heddle.schedule @p(20 percent) {
  attend dense
}

// -----

// expected-note@+2 {{the first one is here}}
// expected-error@+1 {{parameter 'keep' is declared twice}}
heddle.schedule @p(keep = 1/2, keep = 1/3) {
  attend dense
}

// -----

// expected-error@+1 {{no parameter can be named 'step', which is a word of at}}
heddle.schedule @p(step = 3) {
  attend dense
}

// -----

// expected-error@+1 {{expected a ratio, such as 1/5, 0.2 or 20 percent, found 'other'}}
heddle.schedule @p(keep = other) {
  attend dense
}

// -----

// expected-warning@+1 {{parameter 'keep' is named nowhere in the schedule}}
heddle.schedule @p(keep = 1/2) {
  attend dense
}

// -----

heddle.schedule @p(group = 32, keep = 1/2) {
  %near = window(group)
  // expected-error@+2 {{expected a ratio, such as 1/5, 0.2 or 20 percent, found 'kep'; the schedule's parameters are group, keep}}
  // expected-note@+1 {{did you mean 'keep'?}}
  %once = cadence at(kep)
  attend dense
}

// -----

// expected-note@+1 {{parameter 'keep' is declared here}}
heddle.schedule @p(keep = 1/2) {
  // expected-error@+1 {{expected an integer, and parameter 'keep' is a ratio}}
  %near = window(keep)
  attend dense
}

// -----

// What is wrong with the number is said where it is used, and where it is from.
// expected-note@+1 {{parameter 'group' is declared here}}
heddle.schedule @p(group = 100) {
  %once = cadence first(1)
  // expected-error@+1 {{must be a power of two from 16 to 1024 rows, or all, found 100}}
  %cols = select columns(keep = 1/2, group = group) by mean_probability on %once
  attend dense
}

// -----

// expected-note@+1 {{parameter 'part' is declared here}}
heddle.schedule @p(part = 20) {
  // expected-error@+1 {{at takes a fraction of the run, found 20; write at(step = 20), or at(20 percent)}}
  %once = cadence at(part)
  attend dense
}

// -----

// expected-note@+1 {{parameter 'none' is declared here}}
heddle.schedule @p(none = 0) {
  // expected-error@+1 {{must be at least 1, found 0}}
  %first = sinks(none)
  attend dense
}

// -----

// expected-note@+1 {{parameter 'none' is declared here}}
heddle.schedule @p(none = 0 percent) {
  %once = cadence first(1)
  // expected-error@+1 {{keep must be more than 0 and at most 1, found 0}}
  %cols = select columns(keep = none, group = 32) by mean_probability on %once
  attend dense
}

// -----

// expected-note@+1 {{parameter 'none' is declared here}}
heddle.schedule @p(none = 0/3) {
  // expected-error@+1 {{must be more than 0 and at most 1, found 0}}
  %first = sinks(none)
  attend dense
}

// -----

// A parameter is its own schedule's.
heddle.schedule @a(keep = 3) {
  %near = window(keep)
  attend dense
}
heddle.schedule @b {
  // expected-error@+1 {{expected an integer, found 'keep'}}
  %near = window(keep)
  attend dense
}
