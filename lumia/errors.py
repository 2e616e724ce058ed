"""Every error Lumia raises, in one tree.

::

    LumiaError
    ├── NotRunningError            no bot is active in this process
    ├── RootNotFoundError          no bot root above this folder
    ├── RegistrationError          a mark (decorator) can't be registered
    ├── BoxError
    │   ├── BoxTypeError           into() found another type than declared
    │   ├── BoxTooLargeError       over the configured size
    │   ├── BoxCycleError          a resource refers to its own Box
    │   ├── BoxSignatureError      unsigned or foreign dill bytes
    │   └── ArcError               a live resource was asked to leave its process, or was used after its end
    ├── FlowError                  next(), intercept() or stop() used where it has no meaning
    ├── PayloadError               a payload or destination doesn't fit its schema
    │   └── PlaceError             a URL leads to a place it may not lead to
    ├── OutsideError               a server outside can't be reached, or did not answer as it should
    ├── MediaError                 a file of a message can't be had
    │   └── TransientMediaError    … now; another try may help
    ├── ConfigError
    │   ├── ConfigKeyError         no such setting; also an AttributeError
    │   ├── ConfigValueError       file, key, value and allowed range
    │   └── ConfigSchemaError      a schema is wrong, or declare() and the schema file disagree
    ├── SecretError                the bot's secret is missing, damaged or open to others
    ├── PluginError
    │   ├── ManifestError
    │   ├── DependencyError
    │   ├── UniqueConflictError
    │   └── PluginLoadError
    ├── PkgError                   an operation of `pkg` can't be done; nothing was changed
    │   ├── SourceError            a repository, tag or folder can't be had
    │   ├── UnsafePackageError     what was fetched, or its address, is refused
    │   ├── SignatureError         tampered with, signed by another key, or revoked
    │   ├── RegistryError          the registry can't be reached, or answers what it must not
    │   ├── PlanError              dependencies, ranges or domains don't fit together
    │   ├── HookError              a plugin's hook failed, or took too long
    │   ├── OperationError         a step of an operation failed; it was undone
    │   ├── BusyDeploymentError    another change of the running bot is under way
    │   ├── BusyTurnError          somebody else is about to change the running bot
    │   ├── StaleDeploymentError   a change was made from other plugins than the bot works with
    │   └── DeploymentRecordError  the record of a change is damaged, or not signed by this bot
    │       └── OldRecordError     it is older than what was at work already
    ├── ServiceError               an absent, or doubly provided, service
    ├── TransportError
    │   ├── BackendUnavailableError  the broker or store can't be reached
    │   │   ├── BackendSilentError     it was reached, and gives no answer in time
    │   │   └── BackendForbiddenError  it refuses the login, or what its access list doesn't allow
    │   ├── UnknownRunError
    │   ├── LaneError              a key was used in a way that could dead-lock
    │   ├── BusyLaneError          a run was refused for now: try again later
    │   │   ├── LaneFullError      as many runs wait in the lane as its cap allows
    │   │   └── RateLimitedError   more runs were started than the rate allows
    │   ├── StaleClaimError        the step was taken over by another worker
    │   ├── StaleRoutesError       a newer route table was published
    │   ├── DeadLetterError        no such dead letter, or it can't be retried
    │   └── RunTimeoutError        waiting ended before the run did
    ├── StoreError                 a value that can't be stored, or a key used with another type
    ├── EffectError                an effect whose outcome is unknown and must not be repeated
    │   └── UnknownSendError       a message of which nobody knows whether it arrived
    ├── NotDoneError               a call to the outside world surely had no effect
    │   ├── RetryAfterError        the other side says when to come back
    │   ├── RejectedError          the other side refuses it for good
    │   └── UnreachableError       the other side was not reached
    ├── SupervisorError        a process of `lumia up` can't be started, reached or stopped
    ├── BlobError
    │   └── BlobWriteError         the disk takes no more
    ├── ExportError            an exported journal is damaged, or can't be written
    ├── WhenError              a text names no moment
    ├── ReplayError            a replay lacks what it needs, or its code reached for the outside world
    ├── HeldError              a send was refused, since the run replays a recorded one
    ├── ModelError                 no model of a role answered
    │   ├── ModelConfigError       a role can't work as configured: model, key or package
    │   └── ModelOutputError       models answered, but not with what was asked for
    ├── ToolError                  a tool gave no result
    │   └── ToolPermissionError    this handler may not call tools, or not yet
    ├── GatewayError               the gateway can't listen on its address
    └── LeaseLostError             another process may own by now what this one did
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lumia.models.reply import Usage


class LumiaError(Exception):
    """Base of every error Lumia raises; its message says what, where and the way out."""


class NotRunningError(LumiaError):
    """A call needs an active bot and this process has none."""


class RootNotFoundError(LumiaError):
    """No bot root was given and none was found upward from the working folder."""


class RegistrationError(LumiaError):
    """A handler can't be registered: signature, name or options are wrong (spec §4.3)."""


class BoxError(LumiaError):
    """Base of the errors about Box (spec §3)."""


class BoxTypeError(BoxError):
    """The stored type is not the one the handler declared."""


class BoxTooLargeError(BoxError):
    """The content is larger than the configured limit."""


class BoxCycleError(BoxError):
    """A live resource refers to the Box that holds it (spec §3.4)."""


class BoxSignatureError(BoxError):
    """dill bytes without this bot's valid signature."""


class ArcError(BoxError):
    """A live resource was asked to leave its process or was used after it was released."""


class FlowError(LumiaError):
    """`next`, `intercept` or `stop` was called twice or where it has no meaning."""


class PayloadError(LumiaError):
    """A payload or a destination doesn't fit its schema (DESIGN §10)."""


class PlaceError(PayloadError):
    """A URL is none, or leads to a place it may not lead to, such as an inner address (DESIGN §9)."""


class OutsideError(LumiaError):
    """A server outside can't be reached, is too slow, or breaks off.

    transient: another try may help. sent: it may have got the request.
    """

    transient = sent = True

    def __init__(self, message: str, *, transient: bool = True, sent: bool = True) -> None:
        super().__init__(message)
        self.transient = transient
        self.sent = sent


class MediaError(LumiaError):
    """A file of a message can't be had; the message says why in plain words and holds no URL."""


class TransientMediaError(MediaError):
    """A file can't be had now; another try may help."""


class ConfigError(LumiaError):
    """Base of the errors about configuration (spec §8)."""


class ConfigKeyError(ConfigError, AttributeError):
    """A plugin has no such setting; lists those it has. Also an `AttributeError`, as `cfg.nmae` ends in it."""


class ConfigValueError(ConfigError):
    """A value doesn't fit its field; names file, key, value and the allowed range."""


class ConfigSchemaError(ConfigError):
    """A schema can't be read, or two declarations of a key disagree."""


class SecretError(LumiaError):
    """The bot's secret can't be made, read or trusted (DESIGN §9)."""


class PluginError(LumiaError):
    """Base of the errors about plugins (spec §7)."""


class ManifestError(PluginError):
    """A manifest.json is missing, is not JSON or has a wrong field; `file` and `line` say where, if known."""

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.line = line


class DependencyError(PluginError):
    """A dependency is missing, too old or circular."""


class UniqueConflictError(PluginError):
    """Two plugins claim the same unique domain."""


class PluginLoadError(PluginError):
    """Importing a plugin or running its on_load failed; names file and line."""


class PkgError(LumiaError):
    """An operation of `pkg` can't be done, and everything is as it was (spec §13)."""


class SourceError(PkgError):
    """A git repository, a tag in it, or a folder can't be had."""


class UnsafePackageError(PkgError):
    """What was fetched, or the address it should come from, is refused."""


class SignatureError(PkgError):
    """A package was tampered with, is signed by another key than before, or its key was revoked (spec §14.2)."""


class RegistryError(PkgError):
    """The registry can't be reached, or its answer doesn't fit its schema."""


class PlanError(PkgError):
    """Dependencies, version ranges, `unique` domains or Python packages don't fit together."""


class HookError(PkgError):
    """A lifecycle hook ended with another exit code than 0, or ran out of time (spec §7.4)."""


class OperationError(PkgError):
    """A step of an operation failed; what it had changed was put back."""


class BusyDeploymentError(PkgError):
    """Another change of the running bot's plugins is being prepared. number, origin: which, and where it was begun."""

    def __init__(self, number: int, origin: str) -> None:
        self.number, self.origin = number, origin
        super().__init__(
            f"the bot's processes are taking over deployment {number}, begun at {origin or 'another place'}; "
            "wait until it is decided (`lumia plugins` shows it), and try again"
        )


class BusyTurnError(PkgError):
    """Another process has the turn to change the bot's plugins. token: of its turn; place: its machine and bot root."""

    def __init__(self, token: int, place: str, who: str) -> None:
        self.token, self.place, self.who = token, place, who
        super().__init__(f"another operation is going on: {who}; try again when it has ended")


class StaleDeploymentError(PkgError):
    """A change was made from other plugins than those the running bot works with; says which differ."""


class DeploymentRecordError(PkgError):
    """The record of a deployment is damaged, or not signed with the bot's secret (DESIGN §9)."""


class OldRecordError(DeploymentRecordError):
    """The record of a deployment is older than one that was active already: a backup, or somebody put it back."""


class ServiceError(LumiaError):
    """A service is absent or provided twice."""


class TransportError(LumiaError):
    """Base of the errors about the transport of runs."""


class BackendUnavailableError(TransportError):
    """The broker or the store can't be reached; what was sent just then may have been accepted all the same."""


class BackendSilentError(BackendUnavailableError):
    """The broker was reached and gives no answer in time: it hangs, or is frozen."""


class BackendForbiddenError(BackendUnavailableError):
    """The broker refuses the login, or its access list (ACL) what was asked; names the rule to add."""


class UnknownRunError(TransportError):
    """No run of this id is known (any more)."""


class LaneError(TransportError):
    """An attached child asked for another lane than the one its run holds."""


class BusyLaneError(TransportError):
    """A run was refused for now and nothing was accepted; `wait`: seconds after which trying again makes sense."""

    def __init__(self, message: str, *, wait: float = 1.0) -> None:
        super().__init__(message)
        self.wait = wait


class LaneFullError(BusyLaneError):
    """As many runs wait in the lane as the start's cap allows, and its overflow policy is `reject`."""


class RateLimitedError(BusyLaneError):
    """More runs were started than the start's rate allows, and its policy is `reject`."""


class StaleClaimError(TransportError):
    """The step was taken over by another worker; this one's result is discarded."""


class StaleRoutesError(TransportError):
    """The plan was made with an older route table than the published one; read it again."""


class DeadLetterError(TransportError):
    """No dead letter is named so, or it can't be retried; says why and what to do."""


class RunTimeoutError(TransportError):
    """Waiting for a run ended before the run did."""


class StoreError(LumiaError):
    """A value can't be stored or a key holds another type."""


class EffectError(LumiaError):
    """An effect has an unknown outcome and its policy forbids repeating it."""


class UnknownSendError(EffectError):
    """A message was handed to a platform that gave no answer: it may have arrived, so it is not sent again."""


class NotDoneError(LumiaError):
    """A call to the outside world surely had no effect, so it may be made again, also under the policy `hold`."""


_DAY = 86400.0


class RetryAfterError(NotDoneError):
    """The other side says when to come back: the step does after `wait` seconds, which costs it no try.

    What is no time, or longer than a day, is nothing anybody can wait for, and counts as a day.
    """

    wait = 1.0

    def __init__(self, message: str, wait: float = 1.0) -> None:
        super().__init__(message)
        self.wait = max(0.0, wait) if wait < _DAY else _DAY  # NaN is not less than anything


class RejectedError(NotDoneError):
    """The other side refuses the call for good (forbidden, no such chat, content it won't take): never tried again."""


class UnreachableError(NotDoneError):
    """The other side was not reached (no address, connection refused); the step is tried again."""


class SupervisorError(LumiaError):
    """A process of `lumia up` can't be started, reached or stopped; says what stands in the way."""


class BlobError(LumiaError):
    """A blob is unknown, too large, damaged or of a refused type."""


class BlobWriteError(BlobError):
    """The disk of the blob store is full, or can't be written."""


class ExportError(LumiaError):
    """An exported journal is damaged, was written by another format, or can't be written."""


class WhenError(LumiaError):
    """A text names no moment; says how one is written."""


class ReplayError(LumiaError):
    """A replay lacks what it needs, or its code reached for the outside world."""


class HeldError(LumiaError):
    """A call of kind `send` was refused, since its run replays a recorded one without `--send`."""


class ModelError(LumiaError):
    """No model of a role answered."""


class ModelOutputError(ModelError):
    """The models of a role answered, but with nothing that fits what was asked for.

    `usage` (`lumia.models.Usage`) and `cost` (US dollars, None when a price isn't known) sum up what those answers came
    to; `usage` is None when no server told.
    """

    def __init__(self, message: str, *, usage: Usage | None = None, cost: float | None = None) -> None:
        super().__init__(message)
        self.usage = usage
        self.cost = cost


class ModelConfigError(ModelError):
    """A model role can't work as configured (name, key, package, refused request); trying again won't help."""


class ToolError(LumiaError):
    """A tool gave no result: unknown, an input that doesn't fit, late, or failed; `server`, `tool` and `reason` say."""

    server = tool = reason = ""

    def __init__(self, server: str, tool: str, reason: str) -> None:
        super().__init__(self.head(server, tool) + reason)
        self.server, self.tool, self.reason = server, tool, reason

    @staticmethod
    def head(server: str, tool: str) -> str:
        """Return how the message of such an error begins."""
        return f"tool {server}.{tool}: " if tool else f"tool server {server}: "


class ToolPermissionError(ToolError):
    """A handler may not call tools: its plugin lacks the permission `mcp`, or its run hasn't passed L1 (DESIGN §11)."""


class GatewayError(LumiaError):
    """The gateway can't listen on its address."""


class LeaseLostError(LumiaError):
    """What this process owned by a lease, see `lumia.adapters.owning`, may be another one's by now."""
