import { podKey } from '../../../apis/egress/node-egress.ts';
import { asFields, asList, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { type Address, formatAddress, parseAddress } from '../../../lib/net/address.ts';

/** A pod's interface as CNI made it. */
export interface PodAttachment {
  /** As podKey. */
  readonly pod: string;
  readonly network: string;
  readonly container: string;
  /** Inside the pod. */
  readonly interface: string;
  /** Without those of loopback and link-local, which leave no node. */
  readonly addresses: readonly string[];
}

/** A text of another program does not have the form that CNI defines. */
export class CniFormatError extends Error {
  override readonly name = 'CniFormatError';
}

/** The longest name in CNI's files and requests, in characters. */
const LONGEST = 255;
/** Addresses of one interface: a pod has one of each family. */
const MOST_ADDRESSES = 64;

/**
 * Reads a file of libcni's result cache (cachedInfo, kind cniCacheV1). Null: it is of no pod.
 * Throws a CniFormatError.
 */
export function readCachedResult(text: string): PodAttachment | null {
  const { kind, ...fields } = parsed(text);
  if (kind !== 'cniCacheV1')
    throw new CniFormatError(`kind: must be cniCacheV1, not ${JSON.stringify(kind)}`);
  const args = list(fields.cniArgs, 'cniArgs');
  const named = new Map(
    args.map((pair) => {
      const [name, value, ...more] = asList(pair) ?? [];
      if (typeof name !== 'string' || typeof value !== 'string' || more.length > 0)
        throw new CniFormatError('cniArgs: must be pairs of texts');
      return [name, value];
    }),
  );
  return toAttachment(named, {
    network: word(fields.networkName, 'networkName'),
    container: word(fields.containerId, 'containerId'),
    interface: word(fields.ifName, 'ifName'),
    result: fields.result,
  });
}

/** A runtime's call of a plugin, as nodewall-egress passes it on. */
export interface PluginCall {
  /** CNI_ARGS: `NAME=VALUE;…`. */
  readonly args: string;
  readonly container: string;
  readonly interface: string;
  /** The network's configuration with prevResult: the plugin's input. */
  readonly config: string;
}

/** As readCachedResult, of a plugin's call. */
export function readPluginCall({
  args,
  container,
  interface: name,
  config,
}: PluginCall): PodAttachment | null {
  const named = new Map(
    args.split(';').map((pair) => {
      const at = pair.indexOf('=');
      return [pair.slice(0, Math.max(0, at)), pair.slice(at + 1)];
    }),
  );
  const { name: network, prevResult = {} } = parsed(config);
  return toAttachment(named, {
    network: word(network, 'name'),
    container: word(container, 'CNI_CONTAINERID'),
    interface: word(name, 'CNI_IFNAME'),
    result: prevResult,
  });
}

function toAttachment(
  args: ReadonlyMap<string, string>,
  { result, ...rest }: Omit<PodAttachment, 'pod' | 'addresses'> & { readonly result: unknown },
): PodAttachment | null {
  const [namespace, name, uid = ''] = ['NAMESPACE', 'NAME', 'UID'].map((part) => args.get(`K8S_POD_${part}`));
  // The loopback network, or containers that are no pods.
  if (namespace === undefined || name === undefined || rest.interface === 'lo') return null;
  for (const text of [namespace, name, uid])
    if (text.length > LONGEST) throw new CniFormatError('the pod has a name that is too long');
  return { ...rest, pod: podKey(namespace, name, uid), addresses: addressesOf(result) };
}

function addressesOf(raw: unknown): string[] {
  const result = asFields(raw ?? {}) ?? fail('result: must be an object');
  const interfaces = list(result.interfaces, 'result.interfaces');
  const ips = list(result.ips, 'result.ips');
  if (ips.length > MOST_ADDRESSES) throw new CniFormatError(`result.ips: more than ${MOST_ADDRESSES}`);
  const addresses = ips.flatMap((item, i) => {
    const { address, interface: at } = asFields(item) ?? fail(`result.ips[${i}]: must be an object`);
    if (!isInPod(interfaces, at)) return [];
    const found = typeof address === 'string' ? parseAddress(address.replace(/\/\d{1,3}$/, '')) : null;
    if (found === null)
      throw new CniFormatError(`result.ips[${i}].address: must be an address with a length`);
    return isLocal(found) ? [] : [formatAddress(found)];
  });
  return [...new Set(addresses)];
}

/** Interfaces without a sandbox are the host's: their addresses are none of the pod. */
function isInPod(interfaces: readonly unknown[], at: unknown): boolean {
  if (at === undefined || at === null) return true;
  const found = typeof at === 'number' ? asFields(interfaces[at]) : null;
  if (found === null) throw new CniFormatError('result.ips: there is no such interface');
  return typeof found.sandbox === 'string' && found.sandbox !== '';
}

function isLocal({ family, value }: Address): boolean {
  if (family === 4) return value >> 24n === 127n || value >> 16n === 0xa9fen || value === 0n;
  return value <= 1n || value >> 118n === 0xfe80n >> 6n;
}

function parsed(text: string): FieldMap {
  try {
    return asFields(JSON.parse(text)) ?? fail('must be an object');
  } catch (error) {
    if (error instanceof CniFormatError) throw error;
    throw new CniFormatError('not valid JSON', { cause: error });
  }
}

function word(value: unknown, field: string): string {
  if (typeof value !== 'string' || value === '' || value.length > LONGEST)
    throw new CniFormatError(`${field}: must be a text of 1 to ${LONGEST} characters`);
  return value;
}

function list(value: unknown, field: string): readonly unknown[] {
  if (value !== undefined && value !== null && !Array.isArray(value)) fail(`${field}: must be a list`);
  return asList(value);
}

function fail(message: string): never {
  throw new CniFormatError(message);
}
