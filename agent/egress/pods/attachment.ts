import { BY_ADDRESS, type NodeEgress, podKey } from '../../../apis/egress/node-egress.ts';
import { asFields, asList, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { type Address, formatAddress, parseAddress } from '../../../lib/net/address.ts';
import { changedIds } from '../../../lib/sharing/changed-map.ts';

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
interface PluginCall {
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

interface Place {
  readonly attachment: PodAttachment;
  /** Later ones count where two have one address. */
  readonly at: number;
}

/** Which pod has which address by CNI. */
export class AddressTable {
  readonly #places = new Map<string, Place>();
  readonly #byAddress = new Map<string, Map<string, Place>>();

  /** @param id of the attachment; one that it had before is replaced */
  set(id: string, attachment: PodAttachment, at: number): void {
    this.delete(id);
    const place = { attachment, at };
    this.#places.set(id, place);
    for (const address of attachment.addresses) {
      const places = this.#byAddress.get(address) ?? new Map<string, Place>();
      this.#byAddress.set(address, places.set(id, place));
    }
  }

  delete(id: string): void {
    const { attachment } = this.#places.get(id) ?? {};
    this.#places.delete(id);
    for (const address of attachment?.addresses ?? []) {
      const places = this.#byAddress.get(address);
      places?.delete(id);
      if (places?.size === 0) this.#byAddress.delete(address);
    }
  }

  has(id: string): boolean {
    return this.#places.has(id);
  }

  /**
   * Pods by address. A sandbox that ended in a crash leaves its address behind: the last one
   * counts.
   */
  pods(): Map<string, string> {
    const pods = new Map<string, string>();
    for (const [address, places] of this.#byAddress) {
      let last: Place | null = null;
      for (const place of places.values()) if (last === null || isLater(place, last)) last = place;
      if (last !== null) pods.set(address, last.attachment.pod);
    }
    return pods;
  }
}

/** Compares by the pod's first network, then by time: the later one counts. */
function isLater(a: Place, b: Place): boolean {
  const [first, other] = [a, b].map(({ attachment }) => attachment.interface === 'eth0');
  return first === other ? a.at > b.at : first === true;
}

/**
 * Addresses of this node that are no longer the pod's that they were, by two states of the
 * controller, which say the class of an address, and of a pod, but not whose an address is: those
 * that no pod has any more, and those that got another class while no pod of the node did. Edits of
 * policies, by which connections keep their way, change the classes of pods alike.
 */
export function movedSources(before: NodeEgress, now: NodeEgress): string[] {
  const edits = new Set(
    [...changedIds(before.pods, now.pods)].flatMap((pod) =>
      before.pods.has(pod) && now.pods.has(pod) ? editOf(before.pods.get(pod), now.pods.get(pod)) : [],
    ),
  );
  const isByAddress = [...now.pods].some(
    ([pod, id]) => id === BY_ADDRESS && before.pods.get(pod) === BY_ADDRESS,
  );
  return [...changedIds(before.sources, now.sources)].filter((address) => {
    if (!before.sources.has(address)) return false;
    if (!now.sources.has(address)) return true;
    const edit = editOf(before.sources.get(address), now.sources.get(address));
    return !isByAddress && !edits.has(edit);
  });
}

/** Addresses that this gateway serves from another node than before. */
export function movedArrivals(before: NodeEgress, now: NodeEgress): string[] {
  return [...changedIds(before.arrivals, now.arrivals)].filter((address) => {
    const [was, is] = [before.arrivals.get(address)?.node, now.arrivals.get(address)?.node];
    return was !== undefined && is !== undefined && was !== is;
  });
}

function editOf(before: string | null | undefined, now: string | null | undefined): string {
  return JSON.stringify([before, now]);
}
