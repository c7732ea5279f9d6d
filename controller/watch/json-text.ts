const QUOTE = 34;
const BACKSLASH = 92;
const NEWLINE = 10;

/** A section of JSON text that holds one value. */
export interface Span {
  readonly start: number;
  readonly end: number;
  /** 1-based line of the file at which it starts. */
  readonly line: number;
}

/** A top-level value; the items of a List are separate from the rest. */
export interface JsonDocument extends Span {
  /** Null if the value has no `items` list. */
  readonly items: readonly Span[] | null;
}

/**
 * Finds the top-level values of a file and the items of Lists, without parsing them to objects: a
 * List of 100,000 pods is then parsed pod by pod. Null if the text is broken; JSON.parse then
 * provides the error message.
 */
export function splitJson(bytes: Uint8Array): JsonDocument[] | null {
  const cursor = new Cursor(bytes);
  const documents: JsonDocument[] = [];
  while (cursor.skipBlank()) {
    const start = cursor.at;
    const line = cursor.line;
    const items = cursor.peek() === '{' ? splitObject(cursor) : cursor.skipValue() ? null : undefined;
    if (items === undefined) return null;
    documents.push({ start, end: cursor.at, line, items });
  }
  return documents;
}

/**
 * Scans an object; returns the spans in its `items`, or null if there are none. Undefined: broken.
 */
function splitObject(cursor: Cursor): Span[] | null | undefined {
  let items: Span[] | null = null;
  cursor.take('{');
  if (!cursor.skipBlank()) return undefined;
  if (cursor.take('}')) return items;
  for (;;) {
    const key = cursor.takeString();
    if (key === null || !cursor.skipBlank() || !cursor.take(':') || !cursor.skipBlank()) return undefined;
    if (key === 'items' && cursor.peek() === '[') {
      const spans = splitList(cursor);
      if (spans === null) return undefined;
      items = spans;
    } else if (!cursor.skipValue()) return undefined;
    if (!cursor.skipBlank()) return undefined;
    if (cursor.take('}')) return items;
    if (!cursor.take(',') || !cursor.skipBlank()) return undefined;
  }
}

function splitList(cursor: Cursor): Span[] | null {
  const spans: Span[] = [];
  cursor.take('[');
  if (!cursor.skipBlank()) return null;
  if (cursor.take(']')) return spans;
  for (;;) {
    const start = cursor.at;
    const line = cursor.line;
    if (!cursor.skipValue()) return null;
    spans.push({ start, end: cursor.at, line });
    if (!cursor.skipBlank()) return null;
    if (cursor.take(']')) return spans;
    if (!cursor.take(',') || !cursor.skipBlank()) return null;
  }
}

/**
 * A position in the text. It is a class because its two numbers change in the one hot loop over a
 * large file.
 */
export class Cursor {
  readonly #bytes: Uint8Array;
  at = 0;
  line = 1;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  peek(): string {
    return String.fromCharCode(this.#bytes[this.at] ?? 0);
  }

  take(character: string): boolean {
    if (this.#bytes[this.at] !== character.charCodeAt(0)) return false;
    this.at++;
    return true;
  }

  /** Returns false at the end of the text. */
  skipBlank(): boolean {
    for (;;) {
      const byte = this.#bytes[this.at];
      if (byte === NEWLINE) this.line++;
      else if (byte !== 32 && byte !== 9 && byte !== 13) return byte !== undefined;
      this.at++;
    }
  }

  /** Reads a string and returns it decoded; null if there is none. */
  takeString(): string | null {
    const start = this.at;
    if (this.#bytes[start] !== QUOTE || !this.#skipString()) return null;
    const raw = Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + start, this.at - start).toString();
    if (!raw.includes('\\')) return raw.slice(1, -1);
    try {
      return JSON.parse(raw) as string;
    } catch {
      return null;
    }
  }

  /** Skips a value; returns false if it is not valid JSON. */
  takeValid(): boolean {
    const start = this.at;
    if (!this.skipValue()) return false;
    try {
      JSON.parse(Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + start, this.at - start).toString());
      return true;
    } catch {
      return false;
    }
  }

  /** Skips a value by matching brackets only; returns false if there is no complete value. */
  skipValue(): boolean {
    const bytes = this.#bytes;
    let depth = 0;
    const start = this.at;
    for (;;) {
      const byte = bytes[this.at];
      switch (byte) {
        case undefined:
          return depth === 0 && this.at > start;
        case QUOTE:
          if (!this.#skipString()) return false;
          break;
        case 0x7b:
        case 0x5b:
          depth++;
          this.at++;
          break;
        case 0x7d:
        case 0x5d:
          if (depth === 0) return this.at > start;
          depth--;
          this.at++;
          break;
        case NEWLINE:
          if (depth === 0) return true;
          this.line++;
          this.at++;
          continue;
        case 0x20:
        case 0x09:
        case 0x0d:
        case 0x2c:
        case 0x3a:
          if (depth === 0) return this.at > start;
          this.at++;
          continue;
        default:
          this.at++;
          continue;
      }
      if (depth === 0) return true;
    }
  }

  #skipString(): boolean {
    const bytes = this.#bytes;
    for (let at = this.at + 1; at < bytes.length; at++) {
      const byte = bytes[at];
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) {
        this.at = at + 1;
        return true;
      } else if (byte === NEWLINE) return false;
    }
    return false;
  }
}
