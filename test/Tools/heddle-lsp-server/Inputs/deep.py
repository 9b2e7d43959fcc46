# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an editor sends when it opens a file nested DEPTH deep, then a good one.

usage: deep.py DEPTH
"""

import json
import sys


def message(method, params, **more):
    print(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}))
    print("// -----")


def opened(name, text):
    message("textDocument/didOpen", {"textDocument": {
        "uri": f"test:///{name}.mlir", "languageId": "mlir", "version": 1,
        "text": text}})


message("initialize", {"processId": 1, "rootPath": "", "capabilities": {},
                       "trace": "off"}, id=0)
opened("deep", "module {" * int(sys.argv[1]))
opened("good", "heddle.schedule @s { attend dense }")
message("shutdown", None, id=1)
print(json.dumps({"jsonrpc": "2.0", "method": "exit"}))
