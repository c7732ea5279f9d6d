import { loadBinding, type NativeRawSocket } from './binding.ts';
import { ClosableLane } from './closable.ts';
import { type ErrnoTable, type NftError, plainError, toErrnoTable, toNftError } from './errors.ts';
import { type NetlinkMessage, NLMSG_ERROR, netlinkMessages } from './netlink-message.ts';

/** Bytes of messages that are read in one call: about 1,000 connections. */
const CHUNK = 256 * 1024;

/** The answer to one request: its messages, or the error with which the kernel refused it. */
export interface RawAnswer {
  readonly messages: readonly NetlinkMessage[];
  readonly error: NftError | null;
}

/**
 * A netlink socket for messages that this package builds and reads itself. Calls run on libuv's
 * thread pool, one after another. Errors as in Netlink.
 */
export class RawSocket {
  readonly #errnos: ErrnoTable;
  readonly #socket: NativeRawSocket;
  readonly #lane: ClosableLane;

  /** `owner` names the object in the message of the CLOSED error. */
  constructor(protocol: number, owner: string) {
    const binding = loadBinding();
    this.#errnos = toErrnoTable(binding.errors);
    this.#lane = new ClosableLane(owner);
    try {
      this.#socket = new binding.RawSocket(protocol);
    } catch (error) {
      throw toNftError(error, this.#errnos);
    }
  }

  /**
   * The answer of a dump, in chunks of whole messages. A caller that stops early closes the socket.
   */
  async *dump(request: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
    await this.#run(() => this.#socket.dump(request));
    for (;;) {
      const chunk = await this.#run(() => this.#socket.next(CHUNK));
      if (chunk.length === 0) return;
      yield chunk;
    }
  }

  /** The answer of a dump as a whole, for those who share the socket. */
  whole(request: Uint8Array): Promise<readonly Uint8Array[]> {
    return this.#run(async () => {
      const chunks: Uint8Array[] = [];
      await this.#socket.dump(request);
      for (;;) {
        const chunk = await this.#socket.next(CHUNK);
        if (chunk.length === 0) return chunks;
        chunks.push(chunk);
      }
    });
  }

  /** One answer per request. `what` names request `index` in its error. */
  async exchange(
    requests: readonly Uint8Array[],
    what: (index: number) => string,
  ): Promise<readonly RawAnswer[]> {
    const bytes = await this.#run(() => this.#socket.exchange(Buffer.concat(requests)));
    const answers = requests.map(() => ({
      messages: [] as NetlinkMessage[],
      error: null as NftError | null,
    }));
    for (const message of netlinkMessages(bytes)) {
      const answer = answers[message.sequence];
      if (answer === undefined) continue;
      if (message.type !== NLMSG_ERROR) answer.messages.push(message);
      else if (message.error !== 0) {
        answer.error = plainError(message.error, what(message.sequence), this.#errnos, message.text);
      }
    }
    return answers;
  }

  /** One result per item, so many in one call that their answers fit into the socket's buffer. */
  async each<Item>(
    items: readonly Item[],
    toRequest: (item: Item) => Uint8Array,
    what: (index: number) => string,
    most = 256,
  ): Promise<(NftError | null)[]> {
    const results: (NftError | null)[] = [];
    for (let i = 0; i < items.length; i += most) {
      const requests = items.slice(i, i + most).map(toRequest);
      const answers = await this.exchange(requests, (index) => what(i + index));
      results.push(...answers.map(({ error }) => error));
    }
    return results;
  }

  /** Waits for pending calls, then closes the socket. Idempotent. */
  close(): Promise<void> {
    return this.#lane.close(() => this.#socket.close());
  }

  #run<Result>(call: () => Promise<Result>): Promise<Result> {
    return this.#lane.run(call, (error) => toNftError(error, this.#errnos));
  }
}
