//===- HeddleTypes.td - Types of the heddle dialect ----------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLETYPES_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLETYPES_TD

include "heddle/Dialect/Heddle/IR/HeddleBase.td"

class Heddle_Type<string name, string typeMnemonic>
    : TypeDef<Heddle_Dialect, name>,
      BuildableType<"$_builder.getType<::mlir::heddle::" # name # "Type>()"> {
  let mnemonic = typeMnemonic;
}

def Heddle_CadenceType : Heddle_Type<"Cadence", "cadence"> {
  let summary = "a set of denoising steps";
}

def Heddle_PairsType : Heddle_Type<"Pairs", "pairs"> {
  let summary = "a set of (query row, key) pairs, one for each query head";
  let description = [{
    The set may depend on the sequence's length and, when a selection is part of
    it, on the step and the layer.
  }];
}

def Heddle_PositionsType : Heddle_Type<"Positions", "positions"> {
  let summary = "a set of positions of a sequence";
  let description = [{
    Used for rows (positions whose hidden state is computed) and for keys alike.
    The set is known before a step's forward pass and may differ from step to
    step and from sequence to sequence.
  }];
}

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLETYPES_TD
