#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The invariants of docs/Architecture.md, each a test of its own.

usage: laws.py SOURCE_DIR [BIN_DIR]

Without BIN_DIR the invariants of programs are skipped and said to be.
"""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(".")
BIN = None

CODE = {".h", ".cpp", ".td", ".py", ".cmake", ".sh", ".mlir", ".cu"}


def tracked():
    """Files that git tracks or would track, as paths relative to ROOT."""
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True)
    if out.returncode == 0:
        names = out.stdout.splitlines()
    else:  # an exported tree without .git
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                 if p.is_file() and not str(p.relative_to(ROOT)).startswith("build")]
    return [Path(n) for n in names if (ROOT / n).is_file()]


def text(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")


def includes(path):
    for number, line in enumerate(text(path).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^">]+)[">]', line)
        if match:
            yield number, match.group(1)


def sources(*components):
    return [p for p in tracked()
            if p.suffix in {".h", ".cpp"} and p.parts[0] in components]


class Includes(unittest.TestCase):
    def offenders(self, components, pattern):
        return [f"{p}:{n}: {inc}" for p in sources(*components)
                for n, inc in includes(p) if re.match(pattern, inc)]

    def test_compiler_includes_nothing_of_the_runtime(self):
        self.assertEqual(self.offenders(("lib", "include"), r"runtime/"), [])

    def test_bundle_and_runtime_include_nothing_of_llvm(self):
        self.assertEqual(
            self.offenders(("bundle", "runtime", "embed"), r"(mlir|llvm|llvm-c|mlir-c)/"), [])

    def test_runtime_tools_include_nothing_of_llvm(self):
        bad = [f"{p}:{n}: {inc}" for p in sources("tools")
               if p.parts[1] in ("explain", "heddle-run", "heddle-bundle", "trust")
               for n, inc in includes(p) if re.match(r"(mlir|llvm|heddle)/", inc)]
        self.assertEqual(bad, [])

    def test_the_cost_model_has_the_long_forms_of_the_table(self):
        table = json.loads(text("lib/Dialect/Shed/Transforms/sm_90a.json"))["wgmma"]
        found = {(row["least_keys"], row["key_shares"]) for row in table
                 if "least_keys" in row and "packed" not in row}
        code = text("tools/explain/Machine.cpp")
        said = tuple(int(re.search(rf"{name} = (\d+);", code)[1])
                     for name in ("longKeys", "keyShares"))
        self.assertEqual(found, {said})

    def test_bundle_includes_nothing_of_the_runtime(self):
        self.assertEqual(self.offenders(("bundle",), r"(runtime|heddle)/"), [])

    def test_runtime_includes_nothing_of_the_compiler(self):
        self.assertEqual(self.offenders(("runtime",), r"heddle/"), [])

    def test_nothing_includes_cuda(self):
        self.assertEqual(
            self.offenders(("bundle", "runtime", "lib", "include"), r"(cuda|cublas)"), [])

    def offenders_of_order(self, components):
        """Includes of a component that comes later. `components`: name -> path prefixes."""
        order = list(components)
        component_of = lambda path: next(
            (name for name in order if str(path).startswith(components[name])), None)
        bad = []
        for p in sources("bundle", "include", "lib", "runtime"):
            if (here := component_of(p)) is None:
                continue
            for n, inc in includes(p):
                there = component_of(Path(inc)) or component_of(Path("include") / inc)
                if there and order.index(there) > order.index(here):
                    bad.append(f"{p}:{n}: {here} includes {inc}")
        return bad

    def test_runtime_components_use_only_those_above_them(self):
        listing = re.search(r"foreach\(component ([^)]*)\)", text(Path("runtime/CMakeLists.txt")))
        order = [component for component in listing.group(1).split() if component != "test"]
        self.assertGreater(len(order), 10)
        self.assertEqual(
            self.offenders_of_order({r: f"runtime/{r}/" for r in order}), [])

    def test_compiler_components_use_only_those_above_them(self):
        self.assertEqual(self.offenders_of_order({
            component: (f"lib/{component}", f"include/heddle/{component}")
            for component in ("Support", "Dialect/Heddle", "Dialect/Shed", "Dialect/Warp", "Conversion",
                         "Target/Codegen", "Target/Host", "Target/NVPTX", "Target/Bundle",
                         "Pipelines")}), [])

    def test_bundle_is_abi_then_program_then_format(self):
        self.assertEqual(self.offenders_of_order(
            {r: f"bundle/{r}/" for r in ("abi", "program", "format")}), [])

    def test_abi_offsets_are_known_in_one_place(self):
        # Only bundle/ defines the argument blocks.
        bad = [str(p) for p in sources("lib", "include", "runtime", "tools")
               if re.search(r"struct (AttentionArgs|SelectArgs|IndexList)\b", text(p))]
        self.assertEqual(bad, [])


class Files(unittest.TestCase):
    def test_no_file_over_900_lines(self):
        bad = [f"{p}: {len(text(p).splitlines())} lines" for p in tracked()
               if p.suffix in CODE and len(text(p).splitlines()) > 900]
        self.assertEqual(bad, [])

    def test_lit_tests_say_which_programs_they_need(self):
        """A build of the runtime alone has no compiler."""
        bad = [str(p) for p in tracked()
               if p.parts[0] == "test" and p.suffix in {".mlir", ".test"}
               and re.search(r"RUN:.*\b(heddle-opt|heddlec|heddle-lsp-server)\b", text(p))
               and "REQUIRES:" not in text(p)]
        self.assertEqual(bad, [])

    def test_every_source_names_the_licence(self):
        bad = [str(p) for p in tracked()
               if p.suffix in {".h", ".cpp", ".td", ".py"} and text(p).strip()
               and "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
               not in text(p)]
        self.assertEqual(bad, [])

    def test_every_component_says_what_may_live_there(self):
        components = {"bundle", "runtime", "lib", "include", "tools", "test", "python", "embed",
                 "docs", "examples", "models", "lib/Conversion", "lib/Pipelines",
                 "lib/Support"}
        for p in tracked():
            for parent in ("runtime", "tools", "models", "lib/Dialect", "lib/Target"):
                below = Path(parent)
                if below in p.parents and p.parent != below:
                    components.add(str(below / p.relative_to(below).parts[0]))
        self.assertIn("runtime/schedule", components)
        bad = [r for r in sorted(components) if not (ROOT / r / "README.md").is_file()]
        self.assertEqual(bad, [])

    def test_header_guards_follow_paths(self):
        bad = []
        for p in sources("bundle", "embed", "include", "lib", "runtime", "tools", "test"):
            if p.suffix != ".h":
                continue
            roots = [r for r in ("include/heddle", "embed/include/heddle") if Path(r) in p.parents]
            inner = p.relative_to(roots[0]) if roots else p
            name = re.sub(r"[^A-Z0-9]", "_", str(inner).upper())
            guard = re.search(r"^#ifndef (\w+)$", text(p), re.M)
            if not guard or guard.group(1) != f"HEDDLE_{name}":
                bad.append(f"{p}: expected HEDDLE_{name}")
        self.assertEqual(bad, [])

    def test_the_version_is_said_once(self):
        version = re.search(r"HEDDLE_VERSION ([\d.]+)\)",
                            text(Path("cmake/HeddleVersion.cmake"))).group(1)
        newest = re.search(r"^## ([\d.]+)", text(Path("CHANGELOG.md")), re.M).group(1)
        self.assertEqual(newest, version)
        bad = [str(p) for p in tracked() if p.name == "CMakeLists.txt"
               and re.search(r"project\([^)]*VERSION \d", text(p))]
        self.assertEqual(bad, [])

    def test_no_methods_name_in_compiler_or_runtime_code(self):
        names = re.compile(
            r"pulse_?col|sparse_?d\b|dy_?llm|window_?diffusion|streaming_?llm|"
            r"fast_?dllm|dkv_?cache|dllm_?cache", re.I)
        bad = []
        for p in sources("lib", "include", "bundle", "runtime", "embed", "tools"):
            if "test" in p.parts or "bench" in p.parts:
                continue
            code = re.sub(r"//[^\n]*|/\*.*?\*/", "", text(p), flags=re.S)
            # Help texts may show an example's file name.
            code = re.sub(r"examples/[\w-]+\.mlir|[\w-]+\.(hdl|mlir|html)", "", code)
            for match in names.finditer(code):
                bad.append(f"{p}: {match.group(0)}")
        self.assertEqual(bad, [])

    def test_no_pass_statistics(self):
        # sizeof(Pass::Statistic) differs between the NDEBUG package and a
        # build with assertions.
        bad = [str(p) for p in tracked()
               if p.parts[0] in ("lib", "include") and p.suffix in {".td", ".cpp", ".h"}
               and re.search(r"let statistics|Pass::Statistic", text(p))]
        self.assertEqual(bad, [])

    def test_every_pass_has_its_file_and_its_test(self):
        """mnemonic heddle-plan-steps <-> PlanSteps.cpp <-> plan-steps.mlir; names
        of machines keep their capitals (ShedToNVVM.cpp)."""
        names = {p.name.lower() for p in tracked()}
        bad = []
        for p in tracked():
            if p.name != "Passes.td":
                continue
            for match in re.finditer(r'def\s+(\w+)\s*:\s*(?:Pass|InterfacePass)<\s*"([\w-]+)"',
                                     text(p)):
                mnemonic = match.group(2)
                stem = re.sub(r"^(heddle|shed|warp|convert)-", "", mnemonic)
                camel = "".join(w.capitalize() for w in stem.split("-"))
                if camel.lower() + ".cpp" not in names:
                    bad.append(f"{mnemonic}: no {camel}.cpp")
                if stem + ".mlir" not in names:
                    bad.append(f"{mnemonic}: no {stem}.mlir")
        self.assertEqual(bad, [])


class Words(unittest.TestCase):
    """One word for one thing, and the field's where it has one."""

    # What nobody outside of this project would say -> what to say.
    PRIVATE = {
        r"\brenew(s|ed|al|als|ing)?\b": "refresh",
        r"\blive rows?\b": "active rows",
        r"(?<!-)\bfp(16|32|64)\b": "f16, f32, f64",
    }

    def spoken(self, path):
        """What a user reads of a file: pages whole, of programs the strings."""
        if path.suffix == ".md" and path.name != "CHANGELOG.md" or path.name == "HeddleScheduleOps.td":
            return text(path)
        if path.suffix == ".py" and path.parts[:2] == ("python", "heddle"):
            return "\n".join(re.findall(r'"""(.*?)"""', text(path), re.S))
        if path.suffix in {".cpp", ".h", ".html", ".js"} and path.parts[0] in (
                "bundle", "embed", "lib", "runtime", "tools") and "test" not in path.parts:
            return "\n".join(s for s in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text(path))
                             if s not in ("fp32", "fp16"))  # read, never said
        return ""

    def test_no_private_words(self):
        bad = [f"{p}: {found.group(0)}, say: {better}" for p in tracked()
               for word, better in self.PRIVATE.items()
               for found in re.finditer(word, self.spoken(p))]
        self.assertEqual(bad, [])


class Programs(unittest.TestCase):
    def setUp(self):
        if BIN is None:
            self.skipTest("no BIN_DIR given")

    def needed(self, program):
        path = BIN / program
        if not path.exists():
            self.skipTest(f"{program} is not part of this build")
        out = subprocess.run(["readelf", "-d", str(path)], capture_output=True,
                             text=True, check=True).stdout
        return re.findall(r"NEEDED.*\[(.*)\]", out)

    def test_heddle_run_links_neither_llvm_nor_cuda(self):
        bad = [lib for lib in self.needed("heddle-run")
               if re.match(r"lib(LLVM|MLIR|cuda|cublas|nv)", lib)]
        self.assertEqual(bad, [])

    def test_heddle_bundle_links_no_llvm(self):
        bad = [lib for lib in self.needed("heddle-bundle")
               if re.match(r"lib(LLVM|MLIR)", lib)]
        self.assertEqual(bad, [])

    def test_compiler_tools_hold_one_mlir(self):
        for program in ("heddle-opt", "heddlec", "heddle-lsp-server"):
            with self.subTest(program):
                self.assertTrue(any(lib.startswith("libMLIR") for lib in self.needed(program)))
                out = subprocess.run(["nm", "-C", "--defined-only", str(BIN / program)],
                                     capture_output=True, text=True, check=True).stdout
                own = [l for l in out.splitlines()
                       if re.search(r" [TW] mlir::MLIRContext::", l)]
                self.assertEqual(own, [])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    ROOT = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        BIN = Path(sys.argv[2]).resolve()
    unittest.main(argv=[sys.argv[0], "-v"])
