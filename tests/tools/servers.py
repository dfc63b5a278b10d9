"""A real web server on this machine whose every byte the test decides; it counts what it was asked."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Handler = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """What the server answers, and what it was asked."""

    port: int = 0
    pages: dict[str, Handler] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def page(self, path: str, body: bytes | str = b"", status: int = 200, **headers: str) -> None:
        """A fixed answer; header names are written with underscores."""
        data = body.encode() if isinstance(body, str) else body
        shown = {"content-type": "text/html; charset=utf-8"} | {name.replace("_", "-"): value for name, value in headers.items()}

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(head(status, {**shown, "content-length": str(len(data))}) + data)

        self.pages[path] = answer

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Because", *(f"{name}: {value}" for name, value in headers.items()), "connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")


@asynccontextmanager
async def site(tls: Path | None = None) -> AsyncIterator[Site]:
    """A server on a free port of the loopback address; unknown paths are 404. `tls`: a file with certificate and key."""
    here = Site()
    live: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        live.add(writer)
        try:
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = first.split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            asked = Asked(method, path, headers, body)
            here.asked.append(asked)
            handler = here.pages.get(path.partition("?")[0])
            if handler is None:
                writer.write(head(404, {"content-length": "0"}))
            else:
                await handler(asked, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            live.discard(writer)
            writer.close()

    secure = None
    if tls is not None:
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(tls)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=secure)
    here.port = server.sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        server.close()
        for writer in list(live):
            writer.transport.abort()
        await asyncio.sleep(0)


def self_signed(name: str, folder: Path) -> Path:
    """A certificate for this name and its key, in one file; it vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC)).not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    plain = serialization.NoEncryption()
    file = folder / f"{name}.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    return file
