"""Random numbers of a session: its seed, and the state of the device's generators, on which random rounding alone depends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from popart._impl.enums import SyntheticDataMode
from popart._impl.exceptions import popart_runtime_error
from popart._impl.logs import getLogger
from popart._impl.sessions import random_numbers


class SessionRandom:
    """The seed belongs to the session, the state to the device."""

    _native: Any
    _program: Any
    _device: Any
    _options: Any
    _loaded: Any

    def _setup_random(self) -> None:
        self._seed = random_numbers.DEFAULT_SEED
        self._sets_state = True  # the state of the device begins with the seed

    @property
    def _rounds_at_random(self) -> bool:
        return bool(self._options.enableStochasticRounding)

    @property
    def _state_words(self) -> int:
        replicas = self._options.replicatedGraphCount if self._options.enableReplicatedGraphs else 1
        return random_numbers.WORDS_PER_IPU * int(self._program.ipus) * int(replicas)

    def _start_random(self) -> None:
        """After loading."""
        state = self._device.rng_state
        if self._sets_state or state is None or len(state) < self._state_words:
            self._set_state(random_numbers.state_of_seed(self._seed, self._state_words))
            self._sets_state = False

    def _set_state(self, state: list[int]) -> None:
        old = self._device.rng_state or []
        self._device.rng_state = state + old[len(state) :]

    def _state(self) -> list[int]:
        return list(self._device.rng_state[: self._state_words])

    @contextlib.contextmanager
    def _random_run(self, native: Any) -> Iterator[None]:
        """Around a run: what its random numbers depend on, and what the next run's do."""
        native.random_state = (self._seed, 0)
        if self._rounds_at_random:
            native.set_rounding_seed(random_numbers.rounding_seed(self._state()))
        yield
        self._seed = random_numbers.next_seed(self._seed)
        if self._rounds_at_random:
            self._set_state(random_numbers.next_state(self._state()))

    def getRandomSeed(self) -> int:
        """The seed that the next run uses; 0 with a warning where the program has no random numbers.

        Raises:
            popart_runtime_error: the session is not prepared.
        """
        return self._seed if self._check_random("getRandomSeed") else 0

    def setRandomSeed(self, seedValue: int) -> None:
        """The seed of the next run, from which that of each later one follows; the state of the generators begins anew.

        Raises:
            popart_runtime_error: the session is not prepared.
        """
        if self._check_random("setRandomSeed"):
            self._loaded("setRandomSeed")
            self._seed = random_numbers.as_seed(seedValue)
            self._set_state(random_numbers.state_of_seed(self._seed, self._state_words))

    def _check_random(self, what: str) -> bool:
        has_random = bool(self._program.has_random)
        if not has_random:
            getLogger("session").warn(f"{what} has no effect: the program has no random numbers")
        elif self._native is None:
            raise popart_runtime_error(f"{what}: the device is not prepared; call prepareDevice first")
        return has_random

    def getRNGState(self) -> list[int]:
        """The state of the generators, of all replicas: `WORDS_PER_IPU` numbers for each IPU; [] with synthetic data.

        Raises:
            popart_runtime_error: without the option enableLoadAndOffloadRNGState, or before prepareDevice.
        """
        self._check_state_option("getRNGState")
        return [] if self._is_synthetic else self._state()

    def setRNGState(self, rngState: Sequence[int]) -> None:
        """Takes what getRNGState gave.

        Raises:
            popart_runtime_error: without the option enableLoadAndOffloadRNGState, before prepareDevice, or for a list of
                another length.
        """
        self._check_state_option("setRNGState")
        if not self._is_synthetic:
            self._set_state(random_numbers.check_state(rngState, self._state_words))

    @property
    def _is_synthetic(self) -> bool:
        return self._options.syntheticDataMode is not SyntheticDataMode["Off"]

    def _check_state_option(self, what: str) -> None:
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(f"{what} needs the option enableLoadAndOffloadRNGState")
        self._loaded(what)
