import { type Answer, type DecodedPacket, decode, encode, type Question } from 'dns-packet';
import { matchesName } from '../../apis/names.ts';

/** How a fake DNS server treats a name. JSON, so that it can be told to another process. */
interface Behaviour {
  readonly A?: readonly string[];
  readonly AAAA?: readonly string[];
  /** Instead of A: an address that follows from the name. */
  readonly byName?: boolean;
  /** Seconds; taken modulo 2 ** 32, so that -1 is 4294967295 on the wire. Default 30. */
  readonly ttl?: number;
  /** Names on the way to the addresses, last first where `shuffled`. */
  readonly chain?: readonly string[];
  readonly shuffled?: boolean;
  /** Records about another name, beside the answer. */
  readonly poison?: { readonly name: string; readonly address: string };
  readonly rcode?: 'NXDOMAIN' | 'SERVFAIL' | 'REFUSED';
  readonly delay?: number;
  readonly silent?: boolean;
  /** Bytes that are no DNS, behind the right id. */
  readonly garbage?: boolean;
  readonly wrongId?: boolean;
}

/**
 * Name, or wildcard as in a policy, to behaviour; the first that fits. What isn't there doesn't
 * exist.
 */
export type Zone = Readonly<Record<string, Behaviour>>;

interface Reply {
  readonly bytes: Buffer;
  readonly delay: number;
}

/** UDP answers hold so much; what is longer is cut, and asked for again by TCP. */
const UDP_ROOM = 1_232;
const NXDOMAIN: Behaviour = { rcode: 'NXDOMAIN' };
const RCODES = { NXDOMAIN: 3, SERVFAIL: 2, REFUSED: 5 } as const;
/** Response, recursion desired and available. */
const FLAGS = 0x0180;
const TRUNCATED = 0x0200;

/** Null where the server says nothing. */
export function replyTo(query: Buffer, zone: Zone, transport: 'udp' | 'tcp'): Reply | null {
  const asked = decode(query);
  const [question] = asked.questions ?? [];
  if (question === undefined) return null;
  const behaviour = behaviourOf(zone, question.name);
  if (behaviour.silent) return null;
  const delay = behaviour.delay ?? 0;
  if (behaviour.garbage)
    return { bytes: Buffer.concat([query.subarray(0, 2), Buffer.alloc(60, 0xc1)]), delay };
  const whole = encodeAnswer(asked, question, behaviour);
  if (transport === 'tcp' || whole.length <= UDP_ROOM) return { bytes: whole, delay };
  const flags = FLAGS | TRUNCATED;
  const cut = encode({ id: asked.id ?? 0, type: 'response', flags, questions: [question] });
  return { bytes: cut, delay };
}

function behaviourOf(zone: Zone, name: string): Behaviour {
  const found = Object.keys(zone).find((key) => matchesName(key, name.toLowerCase()));
  return found === undefined ? NXDOMAIN : (zone[found] ?? NXDOMAIN);
}

function encodeAnswer(asked: DecodedPacket, question: Question, behaviour: Behaviour): Buffer {
  const id = (asked.id ?? 0) ^ (behaviour.wrongId ? 1 : 0);
  const flags = FLAGS | (behaviour.rcode === undefined ? 0 : RCODES[behaviour.rcode]);
  const answers = behaviour.rcode === undefined ? answersTo(question, behaviour) : [];
  return encode({ id, type: 'response', flags, questions: [question], answers });
}

/** The records of a behaviour for one question. */
export function answersTo({ name, type }: Pick<Question, 'name' | 'type'>, behaviour: Behaviour): Answer[] {
  const ttl = (behaviour.ttl ?? 30) >>> 0;
  const names = [name, ...(behaviour.chain ?? [])];
  const last = names.at(-1) ?? name;
  const chain = names
    .slice(1)
    .map((data, i): Answer => ({ type: 'CNAME', name: names[i] ?? name, ttl, data }));
  const v4 = behaviour.byName ? [addressOf(name)] : (behaviour.A ?? []);
  const addresses = type === 'AAAA' ? (behaviour.AAAA ?? []) : v4;
  const kind = type === 'AAAA' ? 'AAAA' : 'A';
  const records = addresses.map((data): Answer => ({ type: kind, name: last, ttl, data }));
  const all = [...chain, ...records];
  if (behaviour.shuffled) all.reverse();
  const { poison } = behaviour;
  if (poison !== undefined) all.push({ type: 'A', name: poison.name, ttl, data: poison.address });
  return all;
}

/** An address of 198.18.0.0/15 (benchmarks, RFC 2544) that follows from a name. */
export function addressOf(name: string): string {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.charCodeAt(0)) % 65_536;
  return `198.18.${sum >> 8}.${sum & 255}`;
}
