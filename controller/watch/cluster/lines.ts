import { WatchFailure } from './failure.ts';

/** Splits a stream of bytes into lines of text. */
export interface LineSplitter {
  /**
   * The lines that end in this chunk, without their line feeds. Throws if the bytes are not UTF-8,
   * or a line is too long.
   */
  push(chunk: Buffer): string[];
  /** Throws if the last line is incomplete: the stream was cut off. */
  end(): void;
}

/** Bytes; an object is at most 3 MiB in etcd. */
const LONGEST = 64 * 1024 * 1024;
const LINE_FEED = 0x0a;

/** @param longest size limit of a line (bytes) */
export function lineSplitter(longest = LONGEST): LineSplitter {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let begun: Buffer[] = [];
  let size = 0;
  const decode = (bytes: Buffer): string => {
    try {
      return decoder.decode(bytes);
    } catch (cause) {
      throw new WatchFailure('malformed', 'a line is not valid UTF-8', { cause });
    }
  };
  return {
    push(chunk) {
      const lines: string[] = [];
      let from = 0;
      for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
        const last = chunk.subarray(from, at);
        lines.push(decode(begun.length === 0 ? last : Buffer.concat([...begun, last])));
        begun = [];
        size = 0;
        from = at + 1;
      }
      if (from < chunk.length) {
        begun.push(chunk.subarray(from));
        size += chunk.length - from;
      }
      if (size > longest) throw new WatchFailure('malformed', `a line is longer than ${longest} bytes`);
      return lines;
    },
    end() {
      if (size > 0) throw new WatchFailure('malformed', `the stream ends within a line, after ${size} bytes`);
    },
  };
}
