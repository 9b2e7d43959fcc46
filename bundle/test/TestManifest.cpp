//===- TestManifest.cpp - A manifest that uses every field ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/test/TestManifest.h"
#include "bundle/abi/Abi.h"

using namespace heddle;
using namespace heddle::bundle;

static Kernel kernel(std::string name, Kernel::Kind kind) {
  Kernel result;
  result.name = name;
  result.kind = kind;
  result.variants = {{variantSymbol(name, "f32", 64), "f32", 64, 32, 4096, 4}};
  return result;
}

Manifest heddle::bundle::testManifest() {
  Manifest manifest;
  manifest.producer = "test";
  manifest.schedule = "test";
  manifest.abi = abi::abiVersion;
  manifest.targets = {{Target::Kind::Host,
                       "x86_64-unknown-linux-gnu",
                       "x86-64-v3",
                       {"avx2", "fma"},
                       {Encoding::Int32}}};

  const Cadence cadence = test::windowed(Cadence::Kind::Uniform, {3, 10}, 16);
  manifest.selections = {{"cols",
                          {1, 5},
                          KeepRule::Floor,
                          32,
                          Selection::Scorer::MeanProbability,
                          cadence}};

  Kernel dense = kernel("dense_lse", Kernel::Kind::Attention);
  dense.writesLse = true;
  Kernel columns = kernel("columns", Kernel::Kind::Attention);
  columns.terms = {{Term::Kind::Columns, 0, 0}};
  Kernel window = kernel("window", Kernel::Kind::Attention);
  window.terms = {{Term::Kind::Window, 64, -1}, {Term::Kind::Sinks, 4, -1}};
  Kernel select = kernel("select", Kernel::Kind::Select);
  select.group = 32;
  manifest.kernels = {dense, columns, window, select};

  Rule usual;
  usual.phases = {{{When::Kind::On, cadence}, 0, -1, -1, {{0, 3}}},
                  {{When::Kind::Before, cadence}, 0, -1, -1, {}},
                  {{When::Kind::Otherwise, {}}, 1, -1, -1, {}}};
  Rule last;
  last.isDefault = false;
  last.firstLayer = -2;
  last.lastLayer = -1;
  last.phases = {{{When::Kind::Otherwise, {}}, 2, -1, -1, {}}};
  manifest.rules = {usual, last};
  return manifest;
}

Manifest heddle::bundle::testCudaManifest() {
  Manifest manifest = testManifest();
  manifest.targets.push_back({Target::Kind::Cuda,
                              "nvptx64-nvidia-cuda",
                              "sm_90a",
                              {"ptx80"},
                              {Encoding::Uint16, Encoding::Int32}});
  const Target &target = manifest.targets.back();
  for (Kernel &kernel : manifest.kernels)
    for (Encoding encoding : target.encodings) {
      if (encoding != Encoding::Int32 && !kernel.hasLists())
        continue;
      KernelVariant variant = kernel.variants.front();
      variant.dtype = "bf16";
      variant.target = 1;
      variant.encoding = encoding;
      variant.threads = 128;
      variant.sharedBytes = 65536;
      if (kernel.terms.empty() && kernel.kind == Kernel::Kind::Attention) {
        variant.mapRows = 128;
        variant.cluster = 2;
      }
      variant.symbol = expectedSymbol(kernel, variant, target);
      kernel.variants.push_back(variant);
      if (kernel.terms.empty() && kernel.kind == Kernel::Kind::Attention) {
        for (LaunchForm form :
             {LaunchForm::All, LaunchForm::Long, LaunchForm::Packed}) {
          variant.form = form;
          variant.leastKeys = form == LaunchForm::All ? 0 : 8192;
          variant.symbol = expectedSymbol(kernel, variant, target);
          kernel.variants.push_back(variant);
        }
      }
    }
  for (RowOp op : allRowOps)
    manifest.rowKernels.push_back(
        {op, {{1, rowSymbol(op, "bf16"), "bf16", 256, 0}}});
  return manifest;
}

Manifest heddle::bundle::testRowsManifest() {
  Manifest manifest = testManifest();
  const Cadence phase = test::every(32), often = test::inBlock(test::every(4));
  manifest.rules.pop_back();
  manifest.kernels.erase(manifest.kernels.begin() + 2);
  manifest.selections[0].cadence = phase;
  manifest.selections.push_back(manifest.selections[0]);
  Selection &blocks = manifest.selections.back();
  blocks.name = "blocks";
  blocks.kind = Selection::Kind::Blocks;
  blocks.rule = KeepRule::FloorPlusOne;
  blocks.isolation = Selection::Isolation::Filtered;
  blocks.scale = Selection::Scale::Heads;
  manifest.kernels[1].terms.push_back({Term::Kind::Blocks, 0, 1});
  manifest.kernels.push_back(kernel("select_blocks", Kernel::Kind::Select));
  manifest.kernels.back().group = 32;
  manifest.kernels.back().blocks = true;
  manifest.rules[0].phases = {{{When::Kind::On, phase},
                               0,
                               -1,
                               -1,
                               {{0, 2}, {1, 3, scoringsOf(blocks, 0)}}},
                              {{When::Kind::Otherwise, {}}, 1, -1, -1, {}}};

  using Kind = Positions::Kind;
  manifest.positions = {
      {Kind::Decoded, 0, {}, {}, ""},    {Kind::Undecoded, 64, {}, {}, ""},
      {Kind::Union, 0, {}, {0, 1}, ""},  {Kind::Fixed, 0, phase, {2}, ""},
      {Kind::Undecoded, 16, {}, {}, ""}, {Kind::Committed, 0, phase, {}, ""},
      {Kind::Committed, 2, {}, {}, ""},  {Kind::Union, 0, {}, {4, 5, 6}, ""},
      {Kind::Response, 0, {}, {}, ""},   {Kind::Intersect, 0, {}, {7, 8}, ""}};
  manifest.visible = 3;
  Pass whole, some, rest;
  whole.when = {{When::Kind::On, phase}};
  some.when = {{When::Kind::On, often}, {When::Kind::Before, phase}};
  some.rows = 9;
  some.exact = Pass::Exact::LeastSimilar;
  some.keep = {1, 4};
  some.among = 8;
  rest.rows = 7;
  rest.exact = Pass::Exact::Salient;
  rest.below = {3, 2};
  manifest.passes = {whole, some, rest};
  manifest.reuse = {true, Reuse::Attention::Context, true};
  manifest.commit.kind = CommitRule::Kind::Factor;
  manifest.commit.ratio = {5, 1};
  manifest.commit.within = 4;
  manifest.commit.stopAtEos = true;
  return manifest;
}
