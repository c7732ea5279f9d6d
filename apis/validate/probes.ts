import { isIP } from 'node:net';
import type { ProbeConfig, ProbeTarget } from '../config.ts';
import { asFields, asList } from '../schema/json-schema.ts';
import { type FieldPath, type Findings, show } from './problem.ts';

/** An entry of guard.probes that passed the schema and `checkProbes`. */
export interface RawProbe {
  readonly name: string;
  readonly tcp?: string;
  readonly udp?: string;
  readonly http?: string;
}

const KINDS = ['tcp', 'udp', 'http', 'icmp'] as const;
/** Names of the probes that every agent has. */
export const OWN_PROBES: readonly string[] = ['api-server', 'controller', 'dns'];
const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Checks of guard.probes that the schema cannot express. */
export function checkProbes(raw: unknown, path: FieldPath, found: Findings): void {
  const names = new Set<unknown>(OWN_PROBES);
  for (const [index, item] of asList(raw).entries()) {
    const probe = asFields(item);
    if (probe === null) continue;
    const at: FieldPath = [...path, index];
    const { name, from, direction } = probe;
    if (typeof name === 'string' && !NAME.test(name))
      found.error([...at, 'name'], `must have lower-case letters, digits and - only, not ${show(name)}`);
    else if (names.has(name)) found.error([...at, 'name'], `${show(name)} is the name of another probe`);
    names.add(name);
    if (from === 'peer' || from === 'controller')
      found.error([...at, 'from'], `${show(from)} is not supported yet: ${OUTWARD}`);
    else if (direction === 'ingress')
      found.error([...at, 'direction'], `"ingress" is not supported yet: ${OUTWARD}`);
    checkTarget(probe, at, found);
  }
}

const OUTWARD =
  'only this node makes probes, outward; for connections to the node use guard.confirm: Manual, and nodewall confirm from outside';

function checkTarget(probe: Readonly<Record<string, unknown>>, at: FieldPath, found: Findings): void {
  const kinds = KINDS.filter((kind) => kind in probe);
  const [kind, ...others] = kinds;
  if (kind === undefined || others.length > 0) {
    found.error(at, `must have exactly one of ${KINDS.join(', ')}`);
    return;
  }
  const text = probe[kind];
  if (typeof text !== 'string') return;
  if (kind === 'icmp')
    found.error([...at, 'icmp'], 'is not supported yet: use tcp, udp or http to the same address');
  else if (targetOf(kind, text) === null)
    found.error([...at, kind], `must be ${FORMS[kind]}, not ${show(text)}`);
}

const FORMS = {
  tcp: 'an address and a port, as in 192.0.2.1:443 or [2001:db8::1]:443',
  udp: 'an address and a port, as in 192.0.2.1:514 or [2001:db8::1]:514',
  http: 'a URL with an address for its host, as in https://192.0.2.1:8443/healthz (a name would be answered by a cache)',
} as const;

export function toProbe({ name, tcp, udp, http }: RawProbe): ProbeConfig {
  const target = targetOf('tcp', tcp ?? '') ?? targetOf('udp', udp ?? '') ?? targetOf('http', http ?? '');
  if (target === null) throw new TypeError(`probe ${name} has no target`);
  return { name, target };
}

/** Null: not valid. */
function targetOf(kind: ProbeTarget['kind'], text: string): ProbeTarget | null {
  if (kind === 'http') return httpTarget(text);
  const [, v6, v4, port] = /^(?:\[([^\]%]+)\]|([^:]+)):([1-9]\d{0,4})$/.exec(text) ?? [];
  const address = v6 ?? v4 ?? '';
  const isAddress = isIP(address) === (v6 === undefined ? 4 : 6);
  return isAddress && Number(port) <= 65_535 ? { kind, address, port: Number(port) } : null;
}

function httpTarget(url: string): ProbeTarget | null {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) return null;
  const address = parsed.hostname.replace(/^\[|\]$/g, '');
  const port = Number(parsed.port) || (parsed.protocol === 'https:' ? 443 : 80);
  return isIP(address) === 0 ? null : { kind: 'http', url, address, port };
}
