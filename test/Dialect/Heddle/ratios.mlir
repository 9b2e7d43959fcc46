// REQUIRES: heddle-opt
// RUN: heddle-opt %s | FileCheck %s
// RUN: heddle-opt %s | heddle-opt | FileCheck %s

// Ratios are fractions, whatever their spelling (P1).

// CHECK-LABEL: module attributes {test.ratios = [
module attributes {test.ratios = [
  // CHECK-SAME: #heddle.ratio<0.2>, #heddle.ratio<0.2>, #heddle.ratio<0.2>
  #heddle.ratio<1/5>, #heddle.ratio<0.2>, #heddle.ratio<20 percent>,
  // 1 - 0.8 in binary floating point is not 1/5; 0.3 is 3/10 to the last digit.
  // CHECK-SAME: #heddle.ratio<0.3>, #heddle.ratio<0.1>, #heddle.ratio<0.7>
  #heddle.ratio<3/10>, #heddle.ratio<0.1>, #heddle.ratio<70/100>,
  // CHECK-SAME: #heddle.ratio<1>, #heddle.ratio<1>, #heddle.ratio<1>, #heddle.ratio<1>
  #heddle.ratio<1>, #heddle.ratio<1.0>, #heddle.ratio<100 percent>, #heddle.ratio<7/7>,
  // CHECK-SAME: #heddle.ratio<0.125>, #heddle.ratio<0.125>, #heddle.ratio<0.00390625>
  #heddle.ratio<12.5 percent>, #heddle.ratio<1/8>, #heddle.ratio<1/256>,
  // CHECK-SAME: #heddle.ratio<1/3>, #heddle.ratio<1/300>, #heddle.ratio<2/7>
  #heddle.ratio<2/6>, #heddle.ratio<1/3 percent>, #heddle.ratio<2/7>,
  // CHECK-SAME: #heddle.ratio<0.000000000000001>, #heddle.ratio<0.000000000000001>
  #heddle.ratio<0.000000000000001>, #heddle.ratio<1.0e-15>,
  // Too fine for fifteen decimals.
  // CHECK-SAME: #heddle.ratio<1/10000000000000000>
  #heddle.ratio<1.0e-16>,
  // CHECK-SAME: #heddle.ratio<0.999999999999999>
  #heddle.ratio<0.999999999999999>,
  // CHECK-SAME: #heddle.ratio<0>, #heddle.ratio<0>, #heddle.ratio<0>
  #heddle.ratio<0>, #heddle.ratio<0 percent>, #heddle.ratio<0/7>
]} {}
