"""The pickles of executable files: a writer that leaves tensors to the container, and a reader that runs no code.

The reader is torch's weights-only unpickler with another idea of what may be named (`trusted_names`) and with the opcodes
of protocol 4, which keep nested classes out of `getattr` calls. `trusted=True` uses Python's own.
"""

import io
import pickle
import struct
import time

import torch
from torch._weights_only_unpickler import Unpickler as _TorchUnpickler, decode_long

from poptorch._impl import errors
from poptorch._impl.files import loaded_state, trusted_names
from poptorch._impl.files.attribute_rule import Refused, check_attribute
from poptorch._impl.files.loaded_state import Damaged

PROTOCOL = 4
# What a pickle may cost, beside what every file may.
_BYTES, _BYTES_PER_BYTE = 64 << 20, 64  # of copies out of memoised values, instances, and the result as text
_TENSOR_BYTES, _TENSOR_BYTES_PER_BYTE = 256 << 20, 64  # of all tensors as their shapes say, per byte of their storages
_SECONDS, _SECONDS_PER_BYTE = 30.0, 1e-5
_INSTANCE_BYTES, _SET_BYTES = 4096, 216
_STEPS_BETWEEN_LOOKS = 4096  # at the clock
_MAX_QUOTED = 200


class _Writer(pickle.Pickler):
    def __init__(self, file, storages):
        super().__init__(file, protocol=PROTOCOL)
        self._storages = storages
        self._keys = {}

    def persistent_id(self, value):
        if not isinstance(value, (torch.storage.TypedStorage, torch.storage.UntypedStorage)):
            return None
        untyped = value._untyped_storage if isinstance(value, torch.storage.TypedStorage) else value
        dtype = value.dtype if isinstance(value, torch.storage.TypedStorage) else torch.uint8
        if untyped.device.type != "cpu":
            raise errors.create_error(f"a tensor on '{untyped.device}' cannot be exported: move the model to the CPU.")
        key = self._keys.setdefault((untyped._cdata, dtype), len(self._keys))
        if key == len(self._storages):
            flat = torch.empty(0, dtype=dtype)
            self._storages.append(flat.set_(untyped, 0, (untyped.nbytes() // flat.element_size(),), (1,)))
        return ("storage", str(dtype).split(".")[-1], key)


def write(value):
    """(bytes of the pickle, list of flat CPU tensors: the storages it refers to)."""
    file = io.BytesIO()
    storages: list[torch.Tensor] = []
    _Writer(file, storages).dump(value)
    return file.getvalue(), storages


def _storage(identity, storages):
    kind, dtype, key = identity
    if type(kind) is not str or type(dtype) is not str or type(key) is not int or kind != "storage":
        raise Refused("an odd storage")
    if not 0 <= key < len(storages):
        raise Refused(f"the storage {key!r}")
    flat = storages[key]
    if str(flat.dtype) != f"torch.{dtype}":
        raise Refused(f"the storage {key!r} as {dtype!r}")
    return torch.storage.TypedStorage(wrap_storage=flat.untyped_storage(), dtype=flat.dtype, _internal=True)


class _TrustedReader(pickle.Unpickler):
    """Python's own."""

    def __init__(self, content, storages):
        super().__init__(io.BytesIO(content))
        self._storages = storages

    def persistent_load(self, identity):
        return _storage(identity, self._storages)


def read(content, storages, source, trusted=False):
    """The object of a pickle.

    Args:
        content: bytes of the pickle.
        storages: its flat tensors.
        source: file name for messages.
        trusted: run whatever the pickle says, as `pickle.load` does.

    Raises:
        poptorch.Error: a damaged pickle, or one that names something that is not allowed.
    """
    try:
        if trusted:
            return _TrustedReader(content, storages).load()
        return _Reader(content, storages).load()
    except Refused as refused:
        raise errors.create_error(
            f"{source}: the model part of the file uses {errors.foreign(refused, _MAX_QUOTED)}, which is not allowed "
            "while loading. Import the module that defines the classes of the model before loading; if you trust whoever "
            "wrote the file, pass trusted=True, which runs the code it names."
        ) from None
    except Damaged as damage:
        raise errors.create_error(
            f"{source}: the model part of the file is damaged ({errors.foreign(damage, _MAX_QUOTED)})."
        ) from None
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        if trusted:
            raise
        raise errors.create_error(
            f"{source}: the model part of the file is damaged ({type(error).__name__}: "
            f"{errors.foreign(error, _MAX_QUOTED)})."
        ) from error


def _opcode(code):
    def mark(method):
        method.opcode = code[0]
        return method

    return mark


class _Reader(_TorchUnpickler):
    """One pickle. `load` runs opcodes by table; nothing recurses, so nesting costs no stack."""

    def __init__(self, content, storages):
        super().__init__(io.BytesIO(content))
        self._content = content
        self._storages = storages
        self._limit = _BYTES + _BYTES_PER_BYTE * len(content)
        self._budget = self._limit
        self._tensor_limit = _TENSOR_BYTES + _TENSOR_BYTES_PER_BYTE * sum(flat.nbytes for flat in storages)
        self._seconds = _SECONDS + _SECONDS_PER_BYTE * len(content)
        self._end = time.monotonic() + self._seconds
        self._steps = 0
        self._states = {}  # id → (instance, its attributes)
        self._containers = []

    def load(self):
        try:
            value = self._run()
            loaded_state.finish(value, self._states, self._limit, self._tensor_limit, self._look_at_the_clock)
            return value
        except BaseException:
            # Deep chains are cut here, one link after the other: freeing them as they are would recurse.
            for container in self._containers:
                container.clear()
            for _, state in self._states.values():
                state.clear()
            raise

    def _run(self):
        self.metastack, self.stack = [], []
        self.append = self.stack.append
        while True:
            self._look_at_the_clock()
            code = self._take(1)[0]
            if code == pickle.STOP[0]:
                if len(self.stack) != 1 or self.metastack:
                    raise ValueError("more than one value")
                return self.stack.pop()
            method = _TABLE.get(code)
            if method is None:
                raise Refused(f"the pickle opcode {bytes([code])!r}")
            method(self)

    def _look_at_the_clock(self):
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_LOOKS == 0 and time.monotonic() > self._end:
            raise Damaged(f"reading {len(self._content)} bytes took more than {self._seconds:.0f} seconds")

    def _spend(self, count):
        self._budget -= count
        if self._budget < 0:
            raise Refused("more memory than its size explains")

    def _container(self, made):
        self._containers.append(made)
        self.append(made)

    def _take(self, count):
        taken = self.read(count)
        if len(taken) != count:
            raise EOFError("cut off")
        return taken

    def _number(self, form):
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _charge(self, values):
        """Values may be memoised and used again and again: what is copied out of them is counted."""
        for value in values:
            if isinstance(value, (bytes, str, list, tuple, dict, set, frozenset)):
                self._spend(len(value) * (1 if isinstance(value, (bytes, str)) else 64))

    # --- names, calls, instances
    @_opcode(pickle.GLOBAL)
    def _global(self):
        module, name = (self.readline()[:-1].decode("utf-8") for _ in range(2))
        self.append(trusted_names.find(module, name))

    @_opcode(pickle.STACK_GLOBAL)
    def _stack_global(self):
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise ValueError("a name that is no text")
        self.append(trusted_names.find(module, name))

    @_opcode(pickle.REDUCE)
    def _reduce(self):
        args, function = self.stack.pop(), self.stack.pop()
        if type(args) is not tuple:
            raise ValueError("arguments that are no tuple")
        self._charge(args)
        kind = _class_of(function)
        if isinstance(function, trusted_names.Callable):
            self._made_by_a_call(function.call(args))
        elif function is trusted_names.RECONSTRUCTOR:
            kind, base, state = args
            if base is not object or state is not None:
                raise Refused("copyreg._reconstructor with a base or a state")
            self.append(self._instance(_class_of(kind), ()))
        elif function is trusted_names.NONE_TYPE and not args:
            self.append(None)
        elif kind is not None and issubclass(kind, trusted_names.enum.Enum):
            (value,) = args
            self.append(trusted_names.enum_member(kind, value))
        else:
            raise Refused(f"a call of {_describe(function)}")

    def _made_by_a_call(self, made):
        if isinstance(made, torch.Tensor):
            self._spend(_INSTANCE_BYTES)
        if hasattr(made, "clear"):
            self._containers.append(made)
        self._spend(_SET_BYTES)
        self.append(made)

    @_opcode(pickle.NEWOBJ)
    def _newobj(self):
        args, name = self.stack.pop(), self.stack.pop()
        if type(args) is not tuple:
            raise ValueError("arguments that are no tuple")
        self._charge(args)
        kind = _class_of(name)
        self.append(self._instance(name if kind is None else kind, args))

    def _instance(self, kind, args):
        if not trusted_names.is_instance_class(kind):
            raise Refused(f"an instance of {_describe(kind)}")
        if trusted_names.is_named_tuple(kind):
            if len(args) != len(kind._fields):
                raise ValueError(f"a {kind.__qualname__} with {len(args)} fields")
            return tuple.__new__(kind, args)
        if args:
            raise Refused(f"an instance of {_describe(kind)} with arguments")
        self._spend(_INSTANCE_BYTES)
        instance = object.__new__(kind)
        self._states[id(instance)] = (instance, {})
        return instance

    @_opcode(pickle.BUILD)
    def _build(self):
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, trusted_names.NumpyArray):
            self._charge(state)
            self._replace(target, trusted_names.fill_numpy(state))
        elif isinstance(target, trusted_names.numpy.dtype):
            plain = type(state) is tuple and len(state) > 4 and type(state[1]) is str
            if not plain or state[1] not in ("<", "|", "=") or any(part is not None for part in state[2:5]):
                raise Refused("an odd numpy type")
        elif id(target) in self._states:
            self._set_state(target, state)
        else:
            raise Refused(f"state of {_describe(type(target))}")

    def _replace(self, old, new):
        self.stack[-1] = new
        for key in old.memo_keys:
            self.memo[key] = new

    def _set_state(self, target, state):
        if type(state) is tuple and len(state) == 2 and state[1] is None:
            state = state[0]
        if state is None:
            return
        if type(state) is not dict:
            raise Refused(f"state of {_describe(type(target))} that is not a dict")
        held = self._states[id(target)][1]
        if held:
            raise Damaged("an instance with two states")
        for name in state:
            check_attribute(type(target), name)
        held.update(state)  # set when everything is there (loaded_state)

    @_opcode(pickle.BINPERSID)
    def _persistent(self):
        identity = self.stack.pop()
        if type(identity) is not tuple or len(identity) != 3:
            raise Refused("a persistent id")
        self.append(_storage(identity, self._storages))

    # --- containers
    @_opcode(pickle.EMPTY_LIST)
    def _empty_list(self):
        self._container([])

    @_opcode(pickle.EMPTY_DICT)
    def _empty_dict(self):
        self._container({})

    @_opcode(pickle.EMPTY_TUPLE)
    def _empty_tuple(self):
        self.append(())

    @_opcode(pickle.EMPTY_SET)
    def _empty_set(self):
        self._spend(_SET_BYTES)
        self._container(set())

    @_opcode(pickle.MARK)
    def _mark(self):
        self.metastack.append(self.stack)
        self.stack = []
        self.append = self.stack.append

    @_opcode(pickle.POP)
    def _pop(self):
        if self.stack:
            self.stack.pop()
        else:
            self.pop_mark()

    @_opcode(pickle.POP_MARK)
    def _pop_to_mark(self):
        self.pop_mark()

    @_opcode(pickle.TUPLE)
    def _tuple(self):
        items = self.pop_mark()  # changes self.append
        self.append(tuple(items))

    def _short_tuple(self, count):
        if len(self.stack) < count:
            raise IndexError("too few values")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    @_opcode(pickle.TUPLE1)
    def _tuple1(self):
        self._short_tuple(1)

    @_opcode(pickle.TUPLE2)
    def _tuple2(self):
        self._short_tuple(2)

    @_opcode(pickle.TUPLE3)
    def _tuple3(self):
        self._short_tuple(3)

    def _target(self, *kinds):
        if type(self.stack[-1]) not in kinds:
            raise Refused(f"members put into a {type(self.stack[-1]).__name__}")
        return self.stack[-1]

    @_opcode(pickle.APPEND)
    def _append_one(self):
        item = self.stack.pop()
        self._target(list).append(item)

    @_opcode(pickle.APPENDS)
    def _append_many(self):
        items = self.pop_mark()
        self._target(list).extend(items)

    @_opcode(pickle.ADDITEMS)
    def _add_items(self):
        items = self.pop_mark()
        target = self._target(set)
        for item in items:
            self._check_key(item)
            target.add(item)

    @_opcode(pickle.FROZENSET)
    def _frozenset(self):
        items, members = self.pop_mark(), set()
        self._spend(_SET_BYTES)
        for item in items:
            self._check_key(item)
            members.add(item)
        self.append(frozenset(members))

    def _check_key(self, key):
        self._look_at_the_clock()
        looked_at = trusted_names.check_key(key)
        if looked_at > 1:  # hashed anew each time
            self._spend(64 * looked_at)

    def _set_items(self, items):
        target = self._target(dict, trusted_names.collections.OrderedDict, trusted_names.collections.defaultdict)
        if len(items) % 2:
            raise ValueError("a key without a value")
        for key, value in zip(items[::2], items[1::2]):
            # Parameters are keys of an optimizer's state; tensors hash by identity.
            if type(key) not in (torch.Tensor, torch.nn.Parameter):
                self._check_key(key)
            target[key] = value

    @_opcode(pickle.SETITEM)
    def _set_one(self):
        value, key = self.stack.pop(), self.stack.pop()
        self._set_items([key, value])

    @_opcode(pickle.SETITEMS)
    def _set_many(self):
        self._set_items(self.pop_mark())

    # --- plain values
    @_opcode(pickle.NONE)
    def _none(self):
        self.append(None)

    @_opcode(pickle.NEWTRUE)
    def _true(self):
        self.append(True)

    @_opcode(pickle.NEWFALSE)
    def _false(self):
        self.append(False)

    @_opcode(pickle.BININT)
    def _int4(self):
        self.append(self._number("<i"))

    @_opcode(pickle.BININT1)
    def _int1(self):
        self.append(self._number("<B"))

    @_opcode(pickle.BININT2)
    def _int2(self):
        self.append(self._number("<H"))

    @_opcode(pickle.LONG1)
    def _long1(self):
        self.append(decode_long(self._take(self._number("<B"))))

    @_opcode(pickle.LONG4)
    def _long4(self):
        raise Damaged(f"an integer of {self._number('<I')} bytes")

    @_opcode(pickle.BINFLOAT)
    def _float(self):
        self.append(self._number(">d"))

    def _sized(self, form):
        count = self._number(form)
        if count > len(self._content):
            raise EOFError("cut off")
        return self._take(count)

    def _text(self, form):
        self.append(str(self._sized(form), "utf-8"))

    @_opcode(pickle.SHORT_BINUNICODE)
    def _text1(self):
        self._text("<B")

    @_opcode(pickle.BINUNICODE)
    def _text4(self):
        self._text("<I")

    @_opcode(pickle.BINUNICODE8)
    def _text8(self):
        self._text("<Q")

    @_opcode(pickle.SHORT_BINBYTES)
    def _bytes1(self):
        self.append(self._sized("<B"))

    @_opcode(pickle.BINBYTES)
    def _bytes4(self):
        self.append(self._sized("<I"))

    @_opcode(pickle.BINBYTES8)
    def _bytes8(self):
        self.append(self._sized("<Q"))

    # --- memory of the pickle
    def _put(self, key):
        value = self.memo[key] = self.stack[-1]
        if isinstance(value, trusted_names.NumpyArray):
            value.memo_keys.append(key)

    @_opcode(pickle.MEMOIZE)
    def _memoize(self):
        self._put(len(self.memo))

    @_opcode(pickle.BINPUT)
    def _put1(self):
        self._put(self._number("<B"))

    @_opcode(pickle.LONG_BINPUT)
    def _put4(self):
        self._put(self._number("<I"))

    @_opcode(pickle.BINGET)
    def _get1(self):
        self.append(self.memo[self._number("<B")])

    @_opcode(pickle.LONG_BINGET)
    def _get4(self):
        self.append(self.memo[self._number("<I")])

    @_opcode(pickle.PROTO)
    def _proto(self):
        if self._number("<B") > 5:
            raise ValueError("an unknown protocol")

    @_opcode(pickle.FRAME)
    def _frame(self):
        self._number("<Q")


_TABLE = {method.opcode: method for method in vars(_Reader).values() if hasattr(method, "opcode")}


def _class_of(name):
    """The class that a name or a value on the stack stands for; None for anything else."""
    if isinstance(name, trusted_names.ClassName):
        return name.kind
    return name if isinstance(name, type) else None


def _describe(value):
    if isinstance(value, trusted_names.Name):
        return value.full_name
    if isinstance(value, type) or callable(value):
        return f"{getattr(value, '__module__', '?')}.{getattr(value, '__qualname__', type(value).__name__)}"
    return type(value).__name__
