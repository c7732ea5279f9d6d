/**
 * Connections to a node that others make for its guarded apply (docs/guarded-apply.md): what an
 * agent asks the controller, what the controller asks another agent, and the answers. They name
 * probes of the configuration, which the controllers have too, or nodewall's own, whose ports the
 * controllers know: nobody can ask for another address or port.
 */

import { isIP } from 'node:net';
import type { Config, InwardProbeConfig, InwardTarget, ProbeConfig, ProbeTarget } from './config.ts';
import { asFields, asList } from './schema/json-schema.ts';
import { changed, either, list, nullable, number, type Of, object, text, where } from './schema/shape.ts';
import { type FieldPath, type Findings, show } from './validate/problem.ts';

/** An entry of guard.probes that passed the schema and `checkProbes`. */
export interface RawProbe {
  readonly name: string;
  readonly direction?: 'egress' | 'ingress';
  readonly from?: 'node' | 'peer' | 'controller';
  readonly tcp?: string;
  readonly udp?: string;
  readonly http?: string;
  readonly icmp?: string;
}

const KINDS = ['tcp', 'udp', 'http', 'icmp'] as const;
type Kind = (typeof KINDS)[number];

/** Names of the probes by other agents to a node that has an API server, or a controller. */
export const OWN_INWARD = ['to-api-server', 'to-controller', 'to-webhook'] as const;
/** Names of the probes that agents have without a configuration. */
export const OWN_PROBES: readonly string[] = ['api-server', 'controller', 'dns', ...OWN_INWARD];
/** The most probes to the node: all nodes may ask the controllers at the same time. */
const MOST_INWARD = 8;
const PROBE_NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** The words for the Node's address in inward probes. */
const HOSTS: Readonly<Record<string, InwardProbeConfig['family']>> = { node: null, node4: 4, node6: 6 };

/** Checks of guard.probes that the schema cannot express. */
export function checkProbes(raw: unknown, path: FieldPath, found: Findings): void {
  const names = new Set<unknown>(OWN_PROBES);
  let inward = 0;
  for (const [index, item] of asList(raw).entries()) {
    const probe = asFields(item);
    if (probe === null) continue;
    const at: FieldPath = [...path, index];
    const { name } = probe;
    if (typeof name === 'string' && !PROBE_NAME.test(name))
      found.error([...at, 'name'], `must have lower-case letters, digits and - only, not ${show(name)}`);
    else if (names.has(name)) found.error([...at, 'name'], `${show(name)} is the name of another probe`);
    names.add(name);
    if (isInward(probe) && ++inward > MOST_INWARD)
      found.error(at, `must not be there: at most ${MOST_INWARD} probes are made to the node`);
    checkOrigin(probe, at, found);
    checkTarget(probe, at, found);
  }
}

function isInward({ direction, from }: Readonly<Record<string, unknown>>): boolean {
  return direction === 'ingress' || from === 'peer' || from === 'controller';
}

function checkOrigin(
  { direction, from, icmp }: Readonly<Record<string, unknown>>,
  at: FieldPath,
  found: Findings,
): void {
  const isByOther = from === 'peer' || from === 'controller';
  if (direction === 'ingress' && !isByOther)
    found.error(
      [...at, 'from'],
      'must be peer or controller: a connection of the node to itself passes before any rule',
    );
  if (direction === 'egress' && isByOther)
    found.error([...at, 'direction'], `must be ingress where ${show(from)} makes the connection`);
  if (from === 'controller' && icmp !== undefined)
    found.error([...at, 'icmp'], 'cannot be sent by the controller, which has no such right; use from: peer');
}

function checkTarget(probe: Readonly<Record<string, unknown>>, at: FieldPath, found: Findings): void {
  const kinds = KINDS.filter((kind) => kind in probe);
  const [kind, ...others] = kinds;
  if (kind === undefined || others.length > 0) {
    found.error(at, `must have exactly one of ${KINDS.join(', ')}`);
    return;
  }
  const text = probe[kind];
  if (typeof text !== 'string') return;
  const isValid = isInward(probe) ? inwardTarget(kind, text) !== null : targetOf(kind, text) !== null;
  const forms = isInward(probe) ? INWARD_FORMS : FORMS;
  if (!isValid) found.error([...at, kind], `must be ${forms[kind]}, not ${show(text)}`);
}

const FORMS: Readonly<Record<Kind, string>> = {
  tcp: 'an address and a port, as in 192.0.2.1:443 or [2001:db8::1]:443',
  udp: 'an address and a port, as in 192.0.2.1:514 or [2001:db8::1]:514',
  http: 'a URL with an address for its host, as in https://192.0.2.1:8443/healthz (a name would be answered by a cache)',
  icmp: 'an address, as in 192.0.2.1 or 2001:db8::1',
};

const INWARD_FORMS: Readonly<Record<Kind, string>> = {
  tcp: "node and a port, as in node:22 (node4 or node6 for the Node's first address of that family)",
  udp: "node and a port, as in node:514 (node4 or node6 for the Node's first address of that family)",
  http: 'a URL with the host node (or node4, node6), as in https://node:10250/healthz',
  icmp: "node (or node4, node6 for the Node's first address of that family)",
};

export function toProbes(raw: readonly RawProbe[]): Pick<Config['guard'], 'probes' | 'inward'> {
  return {
    probes: raw.filter((probe) => !isInward({ ...probe })).map(toProbe),
    inward: raw.filter((probe) => isInward({ ...probe })).map(toInwardProbe),
  };
}

function toProbe(raw: RawProbe): ProbeConfig {
  const target = KINDS.map((kind) => targetOf(kind, raw[kind] ?? '')).find((one) => one !== null);
  if (target === undefined) throw new TypeError(`probe ${raw.name} has no target`);
  return { name: raw.name, target };
}

function toInwardProbe(raw: RawProbe): InwardProbeConfig {
  const found = KINDS.map((kind) => inwardTarget(kind, raw[kind] ?? '')).find((one) => one !== null);
  if (found === undefined) throw new TypeError(`probe ${raw.name} has no target`);
  return { name: raw.name, from: raw.from === 'peer' ? 'peer' : 'controller', ...found };
}

/** Null: not valid. */
function targetOf(kind: Kind, text: string): ProbeTarget | null {
  if (kind === 'http') return httpTarget(text);
  if (kind === 'icmp') return isIP(text) === 0 ? null : { kind, address: text };
  const [, v6, v4, port] = /^(?:\[([^\]%]+)\]|([^:]+)):([1-9]\d{0,4})$/.exec(text) ?? [];
  const address = v6 ?? v4 ?? '';
  const isAddress = isIP(address) === (v6 === undefined ? 4 : 6);
  return isAddress && Number(port) <= 65_535 ? { kind, address, port: Number(port) } : null;
}

function httpTarget(url: string): ProbeTarget | null {
  const parsed = parsedUrl(url);
  if (parsed === null) return null;
  const address = parsed.hostname.replace(/^\[|\]$/g, '');
  return isIP(address) === 0 ? null : { kind: 'http', url, address, port: portOf(parsed) };
}

/** Null: not valid. */
function inwardTarget(kind: Kind, text: string): Pick<InwardProbeConfig, 'family' | 'target'> | null {
  if (kind === 'http') return inwardHttpTarget(text);
  const [, host = '', digits] = /^(node[46]?)(?::([1-9]\d{0,4}))?$/.exec(text) ?? [];
  const family = HOSTS[host];
  const port = Number(digits);
  const isWhole = kind === 'icmp' ? digits === undefined : port <= 65_535;
  if (family === undefined || !isWhole) return null;
  const target: InwardTarget = kind === 'icmp' ? { kind } : { kind, port };
  return { family, target };
}

function inwardHttpTarget(url: string): Pick<InwardProbeConfig, 'family' | 'target'> | null {
  const parsed = parsedUrl(url);
  const family = HOSTS[parsed?.hostname ?? ''];
  if (parsed === null || family === undefined) return null;
  return { family, target: { kind: 'http', url, port: portOf(parsed) } };
}

function parsedUrl(url: string): URL | null {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  return parsed !== null && ['http:', 'https:'].includes(parsed.protocol) ? parsed : null;
}

function portOf({ port, protocol }: URL): number {
  return Number(port) || (protocol === 'https:' ? 443 : 80);
}

/** Those of the configuration, and nodewall's own. */
const MOST_ASKED = MOST_INWARD + OWN_INWARD.length;
/** Milliseconds that a prober has for a connection, and beyond them an agent for the answer. */
export const INWARD_PATIENCE = { connection: 3_000, onTheWay: 1_500 } as const;
/** Bytes: of a question, an answer, or what controllers pass on. */
export const MOST_PROBES_BODY = 16 << 10;

/** The name of a probe, a Node or a controller. */
const NAME = where(text(253), 'a name', (one) => one !== '');
const REASON = text(500);
const ADDRESS = where(text(253), 'an IP address', (one) => isIP(one) !== 0);

export type AskedProbe = Of<typeof ASKED_PROBE>;
const ASKED_PROBE = object(
  { name: NAME },
  {
    /**
     * The prober that made it before, and shall again: from elsewhere it would prove nothing.
     * Absent: anybody.
     */
    prober: NAME,
  },
);

export type InwardQuestion = Of<typeof INWARD_QUESTION>;
export const INWARD_QUESTION_FIELDS = {
  probes: list(ASKED_PROBE, MOST_ASKED),
  /** That each connection has; at most INWARD_PATIENCE.connection. */
  milliseconds: changed(
    where(number(0), 'a number above 0', (one) => one > 0),
    (one) => Math.min(one, INWARD_PATIENCE.connection),
  ),
};
export const INWARD_QUESTION = object(INWARD_QUESTION_FIELDS);

export type ProbeOutcome = Of<typeof PROBE_OUTCOME>;
const OUTCOME = {
  /** Null: there was an answer. */
  error: nullable(REASON),
  /** The address that the prober's socket had; null: not known. */
  source: nullable(ADDRESS),
};
const PROBE_OUTCOME = object(OUTCOME);

/** Nobody could make it: that says nothing of the node. */
export type NotMade = Of<typeof NOT_MADE>;
const NOT_MADE = object({ name: NAME, notMade: REASON });

export type Made = Of<typeof MADE>;
const MADE = object({
  name: NAME,
  /** The name of a Node, or of the controller. */
  prober: NAME,
  /** To which address of the node. */
  address: NAME,
  ...OUTCOME,
});

export type InwardResult = NotMade | Made;
export type InwardAnswer = Of<typeof INWARD_ANSWER>;
export const INWARD_ANSWER = object({
  /** In any order; a probe that is absent was not made. */
  results: list(either('what was made, or why not', NOT_MADE, MADE), MOST_ASKED),
});

/** An agent's answer to a ProbeUpdate. */
export type PeerAnswer = Of<typeof PEER_ANSWER>;
export const PEER_ANSWER = object({ id: NAME, ...OUTCOME });

/** The connection to make to a Node with these addresses, in its own order; null: it has none. */
export function inwardConnection(
  { family, target }: Pick<InwardProbeConfig, 'family' | 'target'>,
  addresses: readonly string[],
): ProbeTarget | null {
  const address = addresses.find((text) => family === null || isIP(text) === family);
  if (address === undefined) return null;
  if (target.kind !== 'http') return { ...target, address };
  const url = new URL(target.url);
  url.hostname = isIP(address) === 6 ? `[${address}]` : address;
  return { ...target, address, url: url.href };
}
