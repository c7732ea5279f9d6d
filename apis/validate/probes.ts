import { isIP } from 'node:net';
import type { Config, InwardProbeConfig, InwardTarget, ProbeConfig, ProbeTarget } from '../config.ts';
import { asFields, asList } from '../schema/json-schema.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

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
export const MOST_INWARD = 8;
const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

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
    if (typeof name === 'string' && !NAME.test(name))
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
