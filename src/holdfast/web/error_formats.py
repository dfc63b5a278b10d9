"""Formats of errors: AWS's clients, clients of the worker protocol, browsers, and all other clients each read errors in a format of their
own."""

from __future__ import annotations

from holdfast.model.errors import AccessRefused, HoldfastError
from holdfast.web import aws_errors, page_errors
from holdfast.web.auth.denials import Denial, Denied
from holdfast.web.refusals import Header, Refused, unavailable
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import ErrorFormat


def denial(refused: Refused, request: Request, format: ErrorFormat) -> Reply:
    """The reply to a request that the gate does not admit, in this format."""
    if format is ErrorFormat.PAGE:
        return page_errors.denial_page(refused, request)
    if format is ErrorFormat.AWS or (format is ErrorFormat.PLAIN and not isinstance(refused, Denied)):
        return aws_errors.reply_to(refused)
    status = refused.why.plain_status if isinstance(refused, Denied) else refused.status
    headers: tuple[Header, ...] = ((b"www-authenticate", b'Bearer realm="holdfast"'),) if status == 401 else ()
    if format is ErrorFormat.PLAIN:
        return json_reply({"error": AccessRefused.code, "message": str(refused)}, status, headers)
    from holdfast.web.worker_replies import RequestSubject, error_reply, reply_to  # a server without workers loads none of their code

    if not isinstance(refused, Denied):
        return reply_to(refused, RequestSubject())
    code = "overloaded" if refused.why is Denial.TROUBLE else "access_denied"
    return error_reply(code, str(refused), RequestSubject(), status, headers=headers)


def failure(error: Exception, request: Request, format: ErrorFormat) -> Reply:
    """The reply to a request that the gate admitted and that failed with `error`, in this format."""
    if format is ErrorFormat.PAGE:
        return page_errors.failure_page(error, request)
    if format is ErrorFormat.WORKERS:
        from holdfast.web.worker_replies import error_reply, reply_to, subject_of

        if isinstance(error, TimeoutError):
            error = unavailable(
                "The request took too long. It may still be carried out. Send it again, with the same idempotency key if it has one."
            )
        if isinstance(error, HoldfastError | Refused):
            return reply_to(error, subject_of(request))
        return error_reply("internal_error", "The server had an internal error. Its log has the details.", subject_of(request), 500)
    if isinstance(error, TimeoutError):
        error = unavailable(
            "The request took too long. It may still be carried out. Send it again, with the same ClientToken if it has one."
        )
    if isinstance(error, HoldfastError | Refused):
        return aws_errors.reply_to(error, _agent(request) if isinstance(error, HoldfastError) else "")
    return aws_errors.shaped(500, "ServiceException", "The service had an internal error. Its log has the details.")


def _agent(request: Request) -> str:
    """The headers User-Agent and X-Amz-User-Agent as one text. AWS's clients in browsers and in Node name themselves in
    X-Amz-User-Agent."""
    headers = request.scope["headers"]
    return " ".join(value.decode("latin-1") for key, value in headers if key in (b"user-agent", b"x-amz-user-agent"))
