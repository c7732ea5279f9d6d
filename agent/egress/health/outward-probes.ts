import { connect } from 'node:net';
import { EchoSocket } from 'nftables-napi';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import type { EgressProbe } from '../../../apis/egress/objects.ts';
import { parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import type { Clock } from '../../../lib/process/clock.ts';
import { type Answers, UNASKED, withAnswer } from './lost-gateways.ts';

/** So many answers in a row, and a probe that failed is well again. */
const ANSWERS = 2;

/** One destination that is asked again and again. */
interface Question {
  /** The result of the last time; null: it could not be asked. */
  result(): boolean | null;
  ask(): void;
  close(): void;
}

interface OutwardProbesOptions {
  readonly clock: Clock;
  readonly open: (probe: EgressProbe) => Question;
  /** Called when a gateway fails, or is well again. */
  readonly changed: (gateway: string, isFailing: boolean) => void;
}

interface Asked {
  readonly probe: EgressProbe;
  readonly question: Question;
  answers: Answers;
  cancel: () => void;
}

/**
 * The probes of the gateways of which this node is a candidate, asked outwards from here. Equal
 * probes of several gateways are asked once. A gateway fails while all of its probes do.
 */
export class OutwardProbes {
  readonly #options: OutwardProbesOptions;
  #candidacies: NodeEgress['candidacies'] = [];
  readonly #asked = new Map<string, Asked>();
  #failing: ReadonlySet<string> = new Set();

  constructor(options: OutwardProbesOptions) {
    this.#options = options;
  }

  ask(candidacies: NodeEgress['candidacies']): void {
    if (candidacies === this.#candidacies) return;
    this.#candidacies = candidacies;
    const wanted = new Map(
      candidacies.flatMap(({ probes }) => probes.map((probe) => [keyOf(probe), probe] as const)),
    );
    for (const [key, asked] of this.#asked) {
      if (wanted.has(key)) continue;
      stop(asked);
      this.#asked.delete(key);
    }
    for (const [key, probe] of wanted) {
      if (this.#asked.has(key)) continue;
      const question = this.#options.open(probe);
      const asked: Asked = { probe, question, answers: UNASKED, cancel: () => {} };
      this.#asked.set(key, asked);
      this.#turn(asked, true);
    }
    this.#compare();
  }

  /** Names of gateways, as leases have them. */
  failing(): ReadonlySet<string> {
    return this.#failing;
  }

  close(): void {
    for (const asked of this.#asked.values()) stop(asked);
    this.#asked.clear();
  }

  #turn(asked: Asked, isFirst: boolean): void {
    const { seconds, failures } = asked.probe;
    asked.cancel = this.#options.clock.after(seconds * 1000, () => this.#turn(asked, false));
    const result = isFirst ? null : asked.question.result();
    if (result !== null) {
      asked.answers = withAnswer(asked.answers, result, { losses: failures, answers: ANSWERS });
      this.#compare();
    }
    asked.question.ask();
  }

  #compare(): void {
    const isLost = (probe: EgressProbe): boolean => this.#asked.get(keyOf(probe))?.answers.isLost === true;
    const before = this.#failing;
    const now = new Set(
      this.#candidacies.flatMap(({ gateway, probes }) =>
        probes.length > 0 && probes.every(isLost) ? [gateway] : [],
      ),
    );
    this.#failing = now;
    for (const gateway of now.difference(before)) this.#options.changed(gateway, true);
    for (const gateway of before.difference(now)) this.#options.changed(gateway, false);
  }
}

function keyOf({ address, port, seconds, failures }: EgressProbe): string {
  return [address, port, seconds, failures].join();
}

function stop({ cancel, question }: Asked): void {
  cancel();
  question.close();
}

/** An ICMP echo, or where the probe has a port, a TCP connection that is closed at once. */
export function openQuestion(probe: EgressProbe, identifier: number, secret: Uint8Array): Question {
  return probe.port === undefined
    ? echoQuestion(probe.address, identifier, secret)
    : connectQuestion(probe.address, probe.port);
}

function echoQuestion(text: string, identifier: number, secret: Uint8Array): Question {
  const parsed = parseAddress(text);
  if (parsed === null) throw new RangeError(`${text} is no address`);
  const address = packAddress(parsed);
  let socket: EchoSocket | null = null;
  let sequence = 0;
  let isSent = false;
  return {
    result() {
      if (socket === null || !isSent) return false;
      const isOwn = socket.replies().some((reply) => {
        const isMeant = reply.identifier === identifier && reply.sequence === sequence;
        return isMeant && Buffer.compare(reply.data, secret) === 0;
      });
      return isOwn;
    },
    ask() {
      sequence = (sequence + 1) & 0xffff;
      isSent = false;
      try {
        // A connected socket keeps an error of an ICMP message: each question has a new one.
        socket?.close();
        socket = new EchoSocket(parsed.family, { peer: address });
        socket.request({ address, identifier, sequence, data: secret });
        isSent = true;
      } catch {
        // No route, or not permitted by the rules: that is no answer.
      }
    },
    close: () => socket?.close(),
  };
}

function connectQuestion(host: string, port: number): Question {
  let isConnected = false;
  let close = (): void => {};
  return {
    result: () => isConnected,
    ask() {
      close();
      isConnected = false;
      const socket = connect({ host, port });
      close = () => socket.destroy();
      socket.on('error', () => {});
      socket.on('connect', () => {
        isConnected = true;
        socket.destroy();
      });
    },
    close: () => close(),
  };
}
