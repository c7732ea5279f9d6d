import { type Address, parseAddress, parseCidr } from '../address.ts';
import {
  apiGroupOf,
  assertOnlyFields,
  type LabelSelector,
  type Manifest,
  objectsOfKind,
} from '../manifest.ts';
import { type Gateway, type Policy, parseRange, type Selection } from './egress-objects.ts';

/** The version of egressgateway.spidernet.io that the oracle evaluates (docs/egress.md). */
const VERSION = 'egressgateway.spidernet.io/v1beta1';

interface Pair {
  ipv4?: string;
  ipv6?: string;
}

interface EntryManifest extends Pair {
  policies?: { name: string; namespace?: string }[];
}

interface GatewayManifest extends Manifest {
  spec: {
    clusterDefault?: boolean;
    ippools?: { ipv4?: string[]; ipv6?: string[]; ipv4DefaultEIP?: string; ipv6DefaultEIP?: string };
    nodeSelector: { selector?: LabelSelector };
  };
  status?: { nodeList?: { name: string; status?: string; eips?: EntryManifest[] }[] };
}

function gatewaysIn(objects: readonly object[]): GatewayManifest[] {
  const isOther = ({ apiVersion, kind }: Manifest) =>
    apiVersion === 'egressgateway.spidernet.io/v1' || kind === 'EgressGatewayPolicy';
  const other = (objects as Manifest[]).find(isOther);
  if (other !== undefined) throw new Error(`the oracle does not evaluate ${other.apiVersion} ${other.kind}`);
  return objectsOfKind(objects, [VERSION], 'EgressGateway') as GatewayManifest[];
}

/** Its gateways: every namespace may use them; a node in the status owns its EIPs. */
export function toSpidernetGateways(objects: readonly object[]): Gateway[] {
  return gatewaysIn(objects).map(({ apiVersion, metadata, spec, status }) => {
    assertOnlyFields(spec, ['clusterDefault', 'ippools', 'nodeSelector'], 'EgressGateway.spec');
    const { ipv4 = [], ipv6 = [], ipv4DefaultEIP, ipv6DefaultEIP } = spec.ippools ?? {};
    const nodes = status?.nodeList ?? [];
    return {
      apiGroup: apiGroupOf(apiVersion),
      name: metadata.name,
      nodeSelector: spec.nodeSelector.selector ?? {},
      // Empty strings are absent.
      pool: [...ipv4, ...ipv6].filter((text) => text !== '').map(parseRange),
      defaults: readable([ipv4DefaultEIP, ipv6DefaultEIP]),
      source: ipv4.length + ipv6.length > 0 ? 'Floating' : 'Node',
      choice: 'Failover',
      allowedNamespaces: {},
      isDefault: spec.clusterDefault === true,
      ready: new Map(nodes.map(({ name, status: phase }) => [name, phase === 'Ready'])),
      slots: nodes.map(({ name, eips = [] }) => ({
        node: name,
        addresses: readable(eips.flatMap((eip) => [eip.ipv4, eip.ipv6])),
      })),
    };
  });
}

interface PolicyManifest extends Manifest {
  spec: {
    egressGatewayName?: string;
    egressIP?: Pair & { useNodeIP?: boolean; allocatorPolicy?: string };
    appliedTo: { podSelector?: LabelSelector; namespaceSelector?: LabelSelector; podSubnet?: string[] };
    destSubnet?: string[];
    priority?: number;
  };
  status?: { eip?: Pair };
}

/** Its policies: those of namespaces before those of the cluster. */
export function toSpidernetPolicies(objects: readonly object[]): Policy[] {
  const kinds = ['EgressPolicy', 'EgressClusterPolicy'];
  const manifests = kinds.flatMap((kind) => objectsOfKind(objects, [VERSION], kind)) as PolicyManifest[];
  const entries = gatewaysIn(objects).flatMap(({ status }) => status?.nodeList ?? []);
  const eips = entries.flatMap((node) => node.eips ?? []);
  return manifests.map((manifest) => toPolicy(manifest, eips));
}

function toPolicy(manifest: PolicyManifest, eips: readonly EntryManifest[]): Policy {
  const { apiVersion, kind, metadata, spec, status } = manifest;
  assertOnlyFields(
    spec,
    ['egressGatewayName', 'egressIP', 'appliedTo', 'destSubnet', 'priority'],
    `${kind}.spec`,
  );
  const isCluster = kind === 'EgressClusterPolicy';
  const { ipv4, ipv6, useNodeIP, allocatorPolicy } = spec.egressIP ?? {};
  const namespace = isCluster ? undefined : (metadata.namespace ?? 'default');
  // Its own status goes before the gateway's.
  const isUser = ({ policies = [] }: EntryManifest) =>
    policies.some((one) => one.name === metadata.name && (one.namespace || undefined) === namespace);
  const pairs = status?.eip === undefined ? eips.filter(isUser) : [status.eip];
  const fixed = readable([ipv4, ipv6]);
  const ofPool = fixed.length > 0 ? 'Fixed' : allocatorPolicy === 'rr' ? 'Dedicated' : 'Shared';
  return {
    apiGroup: apiGroupOf(apiVersion),
    namespace,
    name: metadata.name,
    stage: isCluster ? 'Default' : 'Namespace',
    priority: spec.priority ?? 1000,
    appliedTo: [toSelection(spec.appliedTo)],
    // Empty strings are absent.
    gateway: spec.egressGatewayName || undefined,
    to: (spec.destSubnet ?? []).length === 0 ? undefined : (spec.destSubnet ?? []).map(parseCidr),
    except: [],
    action: 'Gateway',
    allocation: useNodeIP === true ? 'Node' : ofPool,
    fixed: useNodeIP === true ? [] : fixed,
    count: 1,
    directIfUnavailable: false,
    isAudit: false,
    has: readable(pairs.flatMap((pair) => [pair.ipv4, pair.ipv6])),
  };
}

/** podSelector and podSubnet together are AND-ed. */
function toSelection({
  podSelector,
  namespaceSelector,
  podSubnet = [],
}: PolicyManifest['spec']['appliedTo']): Selection {
  return {
    ...(podSelector === undefined ? {} : { podSelector }),
    ...(namespaceSelector === undefined ? {} : { namespaceSelector }),
    ...(podSubnet.length === 0 ? {} : { podSubnets: podSubnet.map(parseCidr) }),
  };
}

/** Networks that EgressClusterInfo adds. */
export function spidernetNetworks(objects: readonly object[]): string[] {
  const infos = objectsOfKind(objects, [VERSION], 'EgressClusterInfo') as (Manifest & {
    spec?: { extraCidr?: string[] };
  })[];
  return infos.flatMap(({ spec }) => spec?.extraCidr ?? []);
}

function readable(texts: readonly (string | undefined)[]): Address[] {
  return texts.map((text) => parseAddress(text ?? '')).filter((address) => address !== undefined);
}
