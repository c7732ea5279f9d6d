/** A TLS record, a handshake message (RFC 8446), and the extension of ALPN (RFC 7301). */
const HANDSHAKE = 22;
const CLIENT_HELLO = { type: 1, head: 4 } as const;
const ALPN = 16;
/** Bytes: a ClientHello of a browser has 2,000, with keys against quantum computers. */
export const MOST_HELLO = 16 << 10;

/** Reads numbers and bytes one after the other; beyond the end all is missing. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;
  isShort = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  number(length: number): number {
    let value = 0;
    for (const byte of this.bytes(length)) value = value * 256 + byte;
    return value;
  }

  bytes(length: number): Uint8Array {
    if (length > this.left) this.isShort = true;
    const found = this.#bytes.subarray(this.#at, this.#at + length);
    this.#at += found.length;
    return found;
  }

  /** A list whose length stands before it, in so many bytes. */
  list(lengthBytes: number): Reader {
    return new Reader(this.bytes(this.number(lengthBytes)));
  }
}

/**
 * Whether the first bytes of a connection are of a TLS client that offers the protocol; null: more
 * of them are needed. False for all that is not TLS.
 */
export function offersProtocol(bytes: Uint8Array, protocol: string): boolean | null {
  const message = handshakeOf(bytes);
  if (message === null) return bytes.length >= MOST_HELLO ? false : null;
  const hello = new Reader(message);
  // Version and random.
  hello.bytes(2 + 32);
  // Session, cipher suites, compressions.
  for (const lengthBytes of [1, 2, 1]) hello.list(lengthBytes);
  const extensions = hello.list(2);
  while (extensions.left > 0 && !extensions.isShort) {
    const type = extensions.number(2);
    const extension = extensions.list(2);
    if (type === ALPN) return namesOf(extension.list(2)).includes(protocol);
  }
  return false;
}

function namesOf(list: Reader): string[] {
  const names: string[] = [];
  while (list.left > 0) names.push(Buffer.from(list.bytes(list.number(1))).toString('latin1'));
  return names;
}

/**
 * The ClientHello, which may come in several records; null: it is not whole yet. Empty: there is
 * none.
 */
function handshakeOf(bytes: Uint8Array): Uint8Array | null {
  const records = new Reader(bytes);
  const parts: Uint8Array[] = [];
  for (let length = 0; ; ) {
    if (records.left === 0) return null;
    if (records.number(1) !== HANDSHAKE) return new Uint8Array();
    // Its version.
    records.bytes(2);
    parts.push(records.bytes(records.number(2)));
    length += parts.at(-1)?.length ?? 0;
    const isCut = records.isShort;
    if (length >= CLIENT_HELLO.head) {
      const message = new Reader(Buffer.concat(parts));
      if (message.number(1) !== CLIENT_HELLO.type) return new Uint8Array();
      const wanted = message.number(3);
      if (wanted > MOST_HELLO) return new Uint8Array();
      if (message.left >= wanted) return message.bytes(wanted);
    }
    if (isCut) return null;
  }
}
