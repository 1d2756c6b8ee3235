"""Who may ask: the names by which this server is reached, pages of its own only, and whoever has the token.

Around everything else, as plain ASGI. A web page on another site can make a browser send requests here; its requests
are known by the Host that it believes in (DNS rebinding) and by its Origin. The headers of all answers keep a page from
loading or running anything that this server did not send.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinetoscope.server.errors import refused

CONTENT_SECURITY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "font-src 'self'",
        "frame-ancestors 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
"""The page loads and runs nothing that this server does not send."""

HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of all answers."""

_FOREIGN_SITES: Final = ("cross-site", "same-site")


@dataclass(frozen=True, slots=True)
class Rules:
    """Access rules: host, token, names.

    Attributes:
        host: the address that the server listens at.
        token: what they must know; "" where being on this machine is enough.
        names: further names of the server (of a proxy before it).
    """

    host: str = "127.0.0.1"
    token: str = ""
    names: frozenset[str] = frozenset()


class Access:
    """The middleware that enforces the rules."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._names = {name.lower() for name in (*rules.names, *own_names(rules.host))}
        self._cookie = f"kinetoscope-{hashlib.sha256(rules.token.encode()).hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it pass, or say why not."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # there are no web sockets here

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if "cache-control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        answer = self._refusal(scope)
        await (answer or self._app)(scope, receive, sending)

    def _refusal(self, scope: Scope) -> Response | None:
        """The refusal of a request; None if it may pass."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return refused(403, "this server does not go by that name", "Open it by the address that it printed.")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{hosts[0]}".lower(), f"https://{hosts[0]}".lower()):
            return refused(403, "a page of another site asked", "Open the page of this server itself.")
        # A link from elsewhere may lead here; a picture or a form of another page may not make this server work.
        leads = scope["method"] in ("GET", "HEAD") and headers.get("sec-fetch-mode", "navigate") == "navigate"
        if headers.get("sec-fetch-site") in _FOREIGN_SITES and not leads:
            return refused(403, "a page of another site asked", "Open the page of this server itself.")
        return self._without_token(scope, headers) if self._rules.token else None

    def _is_own(self, host: str) -> bool:
        """Whether a host is a name of this server, at any port (a tunnel's); an address cannot be rebound."""
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if not name or set(host) & set("/@?#\\"):
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not is_loopback(self._rules.host)

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if given:
            if not self._is_token(given[-1]):
                return self._no()
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            # Relative, for a proxy may have put a folder before the path.
            here = "./" + quote(scope["path"].rpartition("/")[2]) + (f"?{rest}" if rest else "")
            # Lax: the link may have been followed from a mail or a chat on another site, and Strict would hold it back.
            cookie = f"{self._cookie}={self._rules.token}; Path=/; HttpOnly; SameSite=Lax"
            return Response(status_code=303, headers={"Location": here, "Set-Cookie": cookie})
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(bearer.strip()):
            return None
        return None if any(map(self._is_token, self._in_cookies(headers))) else self._no()

    def _in_cookies(self, headers: Headers) -> Iterable[str]:
        for line in headers.getlist("cookie"):
            for part in line.split(";"):
                name, _, value = part.strip().partition("=")
                if name == self._cookie:
                    yield value

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode("utf-8", "replace"), self._rules.token.encode())

    @staticmethod
    def _no() -> Response:
        return refused(403, "the token is missing or wrong", "Open the link that `kinetoscope view` printed.")


def own_names(host: str) -> set[str]:
    """The names by which a server at this address is reached."""
    names = {"localhost", host}
    if not is_loopback(host):
        names |= {socket.gethostname(), socket.getfqdn()}
    return {name.lower() for name in names if name}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
