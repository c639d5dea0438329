"""Weights of a session: between user, host and device, and to files."""

from __future__ import annotations

import os
from typing import Any

from popart._impl import files
from popart._impl.builder import external_files
from popart._impl.exceptions import popart_runtime_error
from popart._impl.sessions.saved_model import saved_states


class SessionWeights:
    """What a session does with its variables."""

    _weights: Any
    _saved: Any
    _native: Any
    _options: Any
    _initialisers: Any
    _loaded: Any
    _loss: str
    _weights_sent: bool
    _has_run: bool
    _in_sync = False

    def weightsFromHost(self) -> None:
        """The host's values of all variables go to the device, those of the optimizer's state too: the first ones until
        weightsToHost, modelToHost or resetHostWeights changes them."""
        self._send_weights()

    def _send_weights(self) -> None:
        self._weights.to_device(self._loaded("weightsFromHost"))
        self._weights_sent = True
        self._in_sync = True

    def weightsToHost(self) -> None:
        """The device's values of all variables come to the host."""
        self._weights.from_device(self._loaded("weightsToHost"))
        self._in_sync = True

    def readWeights(self, weightsIo: Any) -> None:
        """Fills arrays with the host's values; weightsToHost brings them from the device.

        Raises:
            popart_runtime_error: an array has another number of bytes than its variable.
        """
        self._weights.read(weightsIo)

    def writeWeights(self, weightsIo: Any) -> None:
        """Takes arrays as the host's values; weightsFromHost sends them.

        Raises:
            popart_runtime_error: the weights are constants.
            popart_internal_exception: an array has another shape or type than its variable.
        """
        self._check_not_constant("writeWeights")
        self._weights.write(weightsIo)
        self._weights_sent = False

    def resetHostWeights(
        self, modelProtoOrFilename: Any, ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False
    ) -> None:
        """Takes the values of another model's initialisers as the host's; weightsFromHost sends them.

        Args:
            modelProtoOrFilename: bytes of a model, or the name of its file.
            ignoreWeightsInModelWithoutCorrespondingHostWeight: leaves initialisers out that the session does not have.

        Raises:
            popart_runtime_error: the weights are constants, an initialiser is unknown or of another type.
        """
        from popart._impl.sessions.model import read_model

        self._check_not_constant("resetHostWeights")
        self._weights.reset(read_model(modelProtoOrFilename), ignoreWeightsInModelWithoutCorrespondingHostWeight)
        self._weights_sent = False

    def _check_not_constant(self, what: str) -> None:
        if not self._loss and self._options.constantWeights and not self._initialisers.variables:
            raise popart_runtime_error(
                f"{what}: the weights of this inference session are constants of its program; set "
                "SessionOptions.constantWeights = False to change them, or name them in updatableNamedBuffers"
            )

    def modelToHost(self, fn: Any) -> None:
        """Writes the model with the device's values of its initialisers, and the states of the optimizer, to a file.

        Raises:
            popart_runtime_error: the session is not prepared, a file of tensors cannot be opened, or the model cannot be
                written: its folder is not there, or something else than a regular file goes by the name.
        """
        if self._native is None:
            raise popart_runtime_error("modelToHost: the device is not prepared; call prepareDevice first")
        weights = self._weights
        values, states = {}, {}
        if weights.ids or weights.states:
            if self._weights_sent:
                self.weightsToHost()
            else:  # the host's weights are newer, and before the first run its states are no older
                kept = {
                    name: value for name, value in weights.values.items() if not self._has_run or name in weights.ids
                }
                weights.from_device(self._loaded("modelToHost"))
                weights.values.update(kept)
            values = {name: weights.in_model(name) for name in weights.ids if name in weights.values}
            states = {name: weights.in_model(name) for name in saved_states(weights.states)}
        try:
            files.write(os.fspath(fn), self._saved.parts(values, states), popart_runtime_error)
        except (OSError, ValueError) as failed:  # the latter for a name with a zero in it
            raise popart_runtime_error(f"the model cannot be written to '{fn}': {failed}") from failed

    def updateExternallySavedTensorLocations(self, fromLocation: str, toLocation: str) -> None:
        """Copies the tensors of one file to a new one, where later calls of modelToHost write them.

        Raises:
            popart_runtime_error: the new file is there, the old one is not, or no initialiser lies in it.
        """
        self._saved.move(os.fspath(fromLocation), os.fspath(toLocation))
        external_files.name(os.fspath(toLocation))
