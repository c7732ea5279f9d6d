import type { EgressFlow } from '../../apis/egress/flow.ts';
import { formatAddress, parseAddress } from '../../lib/net/address.ts';
import { inRange, parseAddress as parseAddressPlainly, parseCidr } from '../oracle/address.ts';
import type { SteeredPacket } from './egress-walk.ts';

/** The nodes that the flow's packets may begin on, with their source. Of a Node's own: none. */
export function packetsOf({ pod: named, src, dst }: EgressFlow, raw: readonly object[]): SteeredPacket[] {
  const objects = raw as readonly ManifestLike[];
  const nodes = objects.filter(({ kind }) => kind === 'Node');
  const names = nodes.map(({ metadata }) => metadata.name);
  const pods = objects.filter(isRunningPod);
  const canonical = (text: string): string => {
    const address = parseAddress(text);
    return address === null ? text : formatAddress(address);
  };
  const addressesOf = ({ status }: ManifestLike): string[] =>
    (status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP ?? '']).map(canonical);
  const to = canonical(dst);
  const text = src === undefined ? undefined : canonical(src);
  const pod = pods.find(({ metadata, ...rest }) =>
    text === undefined
      ? named === `${metadata.namespace}/${metadata.name}`
      : addressesOf({ metadata, ...rest }).includes(text),
  );
  if (pod !== undefined) {
    const own = addressesOf(pod).find((one) => one !== '' && one.includes(':') === to.includes(':'));
    const node = pod.spec?.nodeName;
    return own === undefined || node === undefined || !names.includes(node)
      ? []
      : [{ node, src: own, dst: to, isPod: true }];
  }
  if (text === undefined) return [];
  const isNodes = nodes.some(({ status, metadata }) =>
    [
      ...(status?.addresses ?? []).filter(({ type }) => type !== 'Hostname').map(({ address }) => address),
      ...(metadata.annotations?.['nodewall.io/addresses'] ?? '').split(','),
    ].some((own) => canonical(own.trim()) === text),
  );
  if (isNodes) return [];
  const home = nodes.find(({ spec }) => (spec?.podCIDRs ?? []).some((cidr) => isIn(cidr, text)));
  return (home === undefined ? names : [home.metadata.name]).map((node) => ({
    node,
    src: text,
    dst: to,
    isPod: false,
  }));
}

function isIn(cidr: string, text: string): boolean {
  const address = parseAddressPlainly(text);
  return address !== undefined && inRange(parseCidr(cidr), address);
}

function isRunningPod({ kind, spec, status }: ManifestLike): boolean {
  const isFinished = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  return kind === 'Pod' && spec?.hostNetwork !== true && !isFinished;
}

interface ManifestLike {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: {
    readonly nodeName?: string;
    readonly hostNetwork?: boolean;
    readonly podCIDRs?: readonly string[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
  };
}
