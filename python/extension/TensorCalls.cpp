//===- TensorCalls.cpp - Calls on PyTorch's tensors -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every call on tensors does, in C++, since a kernel may take less time
// than ten lines of Python: looks at the tensors, finds what was prepared for
// calls of their kind, makes the output, runs. PyTorch 2.10 and later let
// tensors be looked at by functions of C (DLPack's exchange API), earlier ones
// are asked by their methods.
//
//===----------------------------------------------------------------------===//

#include "Binding.h"

#include "embed/Attention.h"

#include <array>
#include <functional>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace heddle::python {

using embed::Call;
using embed::Part;

namespace {

constexpr int32_t cpu = 1, cuda = 2; // DLPack's device types

/// The table of functions that a library of tensors offers.
/// Source: DLPack 1.3, DLPackExchangeAPI.
struct ExchangeTable {
  struct {
    uint32_t major, minor;
  } version;
  ExchangeTable *older;
  void *allocate, *own, *give; ///< for tensors that change hands
  int (*look)(void *tensor, nb::dlpack::dltensor *out);
  int (*currentStream)(int32_t deviceType, int32_t device, void **out);
};

/// A tensor of at most 4 dimensions, as far as kernels differ by it: dtype,
/// device type, device, dimensions, shape, strides.
struct View {
  std::array<int64_t, 12> facts{};
  uintptr_t data = 0;

  int32_t deviceType() const { return static_cast<int32_t>(facts[1]); }
  int32_t device() const { return static_cast<int32_t>(facts[2]); }
};

/// Of q, k, v and the prompt's length.
using Key = std::array<int64_t, 3 * 12 + 1>;

struct KeyHash {
  size_t operator()(const Key &key) const {
    uint64_t hash = 0;
    for (int64_t fact : key)
      hash = (hash ^ static_cast<uint64_t>(fact)) * 0x9E3779B97F4A7C15u;
    return hash >> 16;
  }
};

class TensorCalls {
public:
  /// `exchange`: the capsule of torch.Tensor's table, or None.
  TensorCalls(nb::module_ torch, nb::object exchange)
      : torch(torch), tensorType(torch.attr("Tensor")),
        isNegated(tensorType.attr("is_neg")),
        emptyLike(torch.attr("empty_like")),
        zerosLike(torch.attr("zeros_like")),
        contiguous(torch.attr("contiguous_format")),
        hasGradients(torch.attr("is_grad_enabled")),
        modes(nb::getattr(torch.attr("_C"), "_len_torch_dispatch_stack",
                          nb::none())),
        isTraced(torch.attr("_C").attr("_is_tracing")),
        forward(torch.attr("autograd").attr("forward_ad")) {
    const nb::object compiled =
        nb::getattr(nb::getattr(torch.attr("_C"), "_dynamo", nb::none()),
                    "guards", nb::none());
    makeOnHost = nb::getattr(compiled, "_empty_strided_cpu", nb::none());
    makeOnCuda = nb::getattr(compiled, "_empty_strided_cuda", nb::none());
    if (exchange.is_none())
      return;
    table = static_cast<const ExchangeTable *>(
        PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api"));
    if (!table)
      throw nb::python_error();
    if (table->version.major != 1 || !table->look)
      table = nullptr;
  }

  /// The output or the lists of a call that is like an earlier one and of which
  /// nobody but us has to know: on plain tensors, without gradients and
  /// negations to come, watched by no dispatch mode and no trace. None for
  /// others.
  nb::object call(int part, nb::handle q, nb::handle k, nb::handle v,
                  nb::object lists, int64_t prompt) {
    const bool plain =
        q.type().is(tensorType) && k.type().is(tensorType) &&
        v.type().is(tensorType) &&
        (modes.is_none() || nb::cast<int>(modes()) == 0) &&
        !isTrue(isTraced()) &&
        nb::cast<int>(forward.attr("_current_level")) < 0 &&
        // What lies in memory may not be negated yet (torch._neg_view).
        !(isTrue(isNegated(q)) || isTrue(isNegated(k)) ||
          isTrue(isNegated(v))) &&
        (!isTrue(hasGradients()) ||
         !(needsGradient(q) || needsGradient(k) || needsGradient(v)));
    return plain ? run(part, q, k, v, std::move(lists), prompt, 0, 1, 1, 0)
                 : nb::none();
  }

  /// What was prepared for calls on tensors like these, or None.
  nb::object find(nb::handle q, nb::handle k, nb::handle v, int64_t prompt) {
    View views[3];
    std::shared_ptr<const Entry> entry = entryOf(q, k, v, prompt, views);
    return entry ? entry->call : nb::none();
  }

  /// `likeByte`: a tensor of one byte where these are. `likeLists`: as many as
  /// a layer's lists have.
  void add(nb::handle q, nb::handle k, nb::handle v, int64_t prompt,
           nb::object call, nb::object likeByte, nb::object likeLists) {
    View views[3];
    Key key;
    if (!look(q, views[0]) || !look(k, views[1]) || !look(v, views[2]))
      throw Raised{"q, k or v cannot be read"};
    fill(key, views, prompt);
    if (entries.size() >= mostEntries)
      entries.clear();
    auto made = std::make_shared<Entry>();
    made->native = nb::cast<Call *>(call);
    made->call = std::move(call);
    if (View byte; look(likeByte, byte))
      made->byteType = byte.facts[0];
    made->byteDtype = likeByte.attr("dtype");
    made->likeByte = std::move(likeByte);
    made->likeLists = std::move(likeLists);
    made->dtype = q.attr("dtype");
    std::tie(made->shape, made->strides) = outputLayout(views[0]);
    entries[key] = std::move(made);
  }

  /// What `part` makes: attention's output or the lists; None where nothing
  /// was prepared for tensors like these. `lists`: a tensor, or None for new
  /// ones, if the layer has some.
  nb::object run(int part, nb::handle q, nb::handle k, nb::handle v,
                 nb::object lists, int64_t prompt, int64_t layer, int64_t step,
                 int64_t steps, int64_t blockSteps) {
    View views[3];
    std::shared_ptr<const Entry> entry = entryOf(q, k, v, prompt, views);
    if (!entry)
      return nb::none();
    const embed::Place place{layer, step, steps, blockSteps};
    const bool selects = static_cast<Part>(part) == Part::Select;
    Call &call = *entry->native;
    embed::CallMemory memory;
    memory.query = reinterpret_cast<const void *>(views[0].data);
    memory.key = reinterpret_cast<const void *>(views[1].data);
    memory.value = reinterpret_cast<const void *>(views[2].data);
    memory.stream = streamOf(views[0]);
    nb::object output, workspace;
    if (!selects)
      output = makeOutput(*entry, q, views[0], memory.output);
    const int64_t listBytes = call.listBytes(layer);
    if (lists.is_none() && listBytes) {
      if (static_cast<Part>(part) == Part::All && layer == 0 && step == 1) {
        // Nobody sees them, and the call reads nothing but what it selects.
        workspace = makeBytes(*entry, views[0],
                              listBytes + call.workspaceBytes(), memory.lists);
        memory.workspace = static_cast<std::byte *>(memory.lists) + listBytes;
      } else {
        lists = zerosLike(entry->likeLists, "memory_format"_a = contiguous);
      }
    }
    if (!lists.is_none())
      memory.lists = listsOf(*entry, lists, views[0], listBytes);
    Calls::One counted;
    Pending pending;
    auto attempt = [&] {
      Result<bool> done = [&] {
        nb::gil_scoped_release released;
        return call.tryRun(place, static_cast<Part>(part), memory,
                           [&] { return pending.interrupts(); });
      }();
      pending.raise();
      return orRaise(std::move(done));
    };
    if (!attempt()) {
      workspace =
          makeBytes(*entry, views[0], call.workspaceBytes(), memory.workspace);
      attempt();
    }
    return selects ? lists : output;
  }

private:
  static constexpr size_t mostEntries = 1024;

  struct Entry {
    nb::object call;
    Call *native = nullptr;
    nb::object likeByte, likeLists;
    int64_t byteType = 0;             ///< what View::facts have for uint8
    nb::object byteDtype;             ///< what PyTorch has
    nb::object dtype, shape, strides; ///< of the output
  };

  static bool isTrue(const nb::object &object) {
    return object.ptr() == Py_True;
  }

  static bool needsGradient(nb::handle tensor) {
    return isTrue(tensor.attr("requires_grad"));
  }

  /// The shape of the query, and the strides of a contiguous tensor of it.
  static std::pair<nb::tuple, nb::tuple> outputLayout(const View &query) {
    const auto *first = query.facts.data() + 4;
    const std::vector<int64_t> shape(first, first + query.facts[3]);
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;)
      strides[i - 1] = strides[i] * shape[i];
    return {nb::tuple(nb::cast(shape)), nb::tuple(nb::cast(strides))};
  }

  /// Memory on the device of `where`, contiguous; null where `like` is none of
  /// PyTorch's own. What PyTorch's compiled programs make tensors with takes
  /// half as long as empty_like(): it passes no dispatcher. It makes them on
  /// the current device.
  nb::object makeQuickly(nb::handle like, const View &where,
                         const nb::object &shape, const nb::object &strides,
                         const nb::object &dtype, void *&address) const {
    const nb::object &make =
        where.deviceType() == cpu ? makeOnHost : makeOnCuda;
    View view;
    if (!like.type().is(tensorType) || make.is_none())
      return {};
    nb::object made = make(shape, strides, dtype);
    if (!look(made, view) || view.device() != where.device())
      return {};
    address = reinterpret_cast<void *>(view.data);
    return made;
  }

  nb::object makeOutput(const Entry &entry, nb::handle q, const View &query,
                        void *&address) const {
    nb::object made =
        makeQuickly(q, query, entry.shape, entry.strides, entry.dtype, address);
    if (!made.is_valid()) {
      made = emptyLike(q, "memory_format"_a = contiguous);
      address = addressOf(made);
    }
    return made;
  }

  nb::object makeBytes(const Entry &entry, const View &query, int64_t bytes,
                       void *&address) const {
    nb::object made = makeQuickly(entry.likeByte, query, nb::make_tuple(bytes),
                                  nb::make_tuple(1), entry.byteDtype, address);
    if (!made.is_valid()) {
      made = emptyLike(entry.likeByte.attr("expand")(bytes),
                       "memory_format"_a = contiguous);
      address = addressOf(made);
    }
    return made;
  }

  /// False for what no call is made of: no memory that this process can read,
  /// as of tensors that wrap others, or another device.
  bool look(nb::handle tensor, View &view) const {
    return (table ? lookByTable(tensor, view) : lookByMethods(tensor, view)) &&
           view.data;
  }

  bool lookByTable(nb::handle tensor, View &view) const {
    nb::dlpack::dltensor seen;
    if (table->look(tensor.ptr(), &seen) != 0) {
      PyErr_Clear();
      return false;
    }
    if (seen.ndim > 4 || !seen.strides ||
        (seen.device.device_type != cpu && seen.device.device_type != cuda))
      return false;
    view.data = reinterpret_cast<uintptr_t>(seen.data) + seen.byte_offset;
    view.facts[0] = seen.dtype.code << 8 | seen.dtype.bits;
    view.facts[1] = seen.device.device_type;
    view.facts[2] = seen.device.device_id;
    view.facts[3] = seen.ndim;
    for (int i = 0; i < seen.ndim; ++i) {
      view.facts[4 + i] = seen.shape[i];
      view.facts[8 + i] = seen.strides[i];
    }
    return true;
  }

  static bool lookByMethods(nb::handle tensor, View &view) {
    try {
      return askMethods(tensor, view);
    } catch (const nb::python_error &) {
      return false; // of what has no address or no shape
    }
  }

  static bool askMethods(nb::handle tensor, View &view) {
    nb::object device = tensor.attr("device");
    const auto type = nb::cast<std::string>(device.attr("type"));
    const auto shape =
        nb::cast<std::vector<int64_t>>(nb::tuple(tensor.attr("shape")));
    const auto strides =
        nb::cast<std::vector<int64_t>>(tensor.attr("stride")());
    if ((type != "cpu" && type != "cuda") || shape.size() > 4)
      return false;
    view.data = nb::cast<uintptr_t>(tensor.attr("data_ptr")());
    view.facts[0] = reinterpret_cast<intptr_t>(tensor.attr("dtype").ptr());
    view.facts[1] = type == "cpu" ? cpu : cuda;
    view.facts[2] = type == "cpu" ? 0 : nb::cast<int64_t>(device.attr("index"));
    view.facts[3] = static_cast<int64_t>(shape.size());
    std::copy(shape.begin(), shape.end(), view.facts.begin() + 4);
    std::copy(strides.begin(), strides.end(), view.facts.begin() + 8);
    return true;
  }

  /// Lists that come back from the caller: kernels read as far as ours go.
  void *listsOf(const Entry &entry, nb::handle lists, const View &query,
                int64_t bytes) const {
    View view;
    if (!look(lists, view) || view.facts[0] != entry.byteType ||
        view.facts[3] != 1 || view.facts[4] != bytes || view.facts[8] != 1 ||
        view.deviceType() != query.deviceType() ||
        view.device() != query.device())
      throw Raised{"lists: expected those that select() of this plan makes of "
                   "such tensors, " +
                   std::to_string(bytes) + " bytes [uint8] on their device"};
    return reinterpret_cast<void *>(view.data);
  }

  void *addressOf(nb::handle tensor) const {
    View view;
    if (!look(tensor, view))
      throw Raised{"a tensor cannot be read"};
    return reinterpret_cast<void *>(view.data);
  }

  uintptr_t streamOf(const View &view) const {
    if (view.deviceType() != cuda)
      return 0;
    if (!table)
      return nb::cast<uintptr_t>(torch.attr("cuda")
                                     .attr("current_stream")(view.device())
                                     .attr("cuda_stream"));
    void *stream = nullptr;
    if (table->currentStream(cuda, view.device(), &stream) != 0)
      throw nb::python_error();
    return reinterpret_cast<uintptr_t>(stream);
  }

  static void fill(Key &key, const View *views, int64_t prompt) {
    auto at = key.begin();
    for (int i = 0; i < 3; ++i)
      at = std::copy(views[i].facts.begin(), views[i].facts.end(), at);
    *at = prompt;
  }

  /// Shared, since whoever makes tensors may let other threads run.
  std::shared_ptr<const Entry> entryOf(nb::handle q, nb::handle k, nb::handle v,
                                       int64_t prompt, View *views) const {
    if (!look(q, views[0]) || !look(k, views[1]) || !look(v, views[2]))
      return nullptr;
    Key key;
    fill(key, views, prompt);
    auto found = entries.find(key);
    return found == entries.end() ? nullptr : found->second;
  }

  nb::object torch, tensorType, isNegated, emptyLike, zerosLike, contiguous,
      hasGradients, modes, isTraced, forward;
  nb::object makeOnHost, makeOnCuda; ///< (shape, strides, dtype); or None
  const ExchangeTable *table = nullptr;
  std::unordered_map<Key, std::shared_ptr<const Entry>, KeyHash> entries;
};

} // namespace

void bindTensorCalls(nb::module_ &m) {
  nb::class_<TensorCalls>(m, "TensorCalls")
      .def(nb::init<nb::module_, nb::object>(), "torch"_a, "exchange"_a.none())
      .def("find", &TensorCalls::find, "q"_a, "k"_a, "v"_a, "prompt"_a)
      .def("add", &TensorCalls::add, "q"_a, "k"_a, "v"_a, "prompt"_a, "call"_a,
           "like_byte"_a, "like_lists"_a)
      .def("call", &TensorCalls::call, "part"_a, "q"_a.none(), "k"_a.none(),
           "v"_a.none(), "lists"_a.none(), "prompt"_a)
      .def("run", &TensorCalls::run, "part"_a, "q"_a, "k"_a, "v"_a,
           "lists"_a.none(), "prompt"_a, "layer"_a, "step"_a, "steps"_a,
           "block_steps"_a);
}

} // namespace heddle::python
