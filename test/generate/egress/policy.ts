import fc from 'fast-check';
import type { LabelSelector, Manifest } from '../../oracle/manifest.ts';
import { fields, maybe, oneOf, weighted } from '../choice.ts';
import { namespaceSelectors, podLabels, selectorOver } from '../selector.ts';
import { DESTINATIONS, gatewayName, NAMESPACES } from './gateway.ts';

/** An EgressPolicy or ClusterEgressPolicy of nodewall.io. */
export interface PolicyManifest extends Manifest {
  spec: PolicySpec;
  status?: { addresses: string[] };
}

interface PolicySpec {
  stage?: string;
  appliedTo: Applied[];
  gateway?: string;
  to?: string[];
  except?: string[];
  action?: string;
  address?: AddressSpec;
  whenUnavailable?: string;
  priority?: number;
  mode?: string;
  established?: string;
}

interface Applied {
  podSelector?: LabelSelector;
  namespaceSelector?: LabelSelector;
  podSubnets?: string[];
}

/** `ipv4` and `ipv6` are places in the pool of the gateway, which is known later. */
export interface AddressSpec {
  allocation?: string;
  count?: number;
  ipv4?: string;
  ipv6?: string;
}

export function policies(size: number): fc.Arbitrary<PolicyManifest[]> {
  return fc.uniqueArray(policy(), {
    minLength: Math.floor(size / 3),
    maxLength: size,
    size: 'max',
    selector: ({ kind, metadata: { namespace, name } }) => `${kind} ${namespace} ${name}`,
  });
}

function policy(): fc.Arbitrary<PolicyManifest> {
  return weighted([3, fc.constant(false)], [2, fc.constant(true)]).chain((isCluster) => {
    const metadata = isCluster
      ? fc.record({ name: fc.constantFrom('a', 'b', 'c', 'd') })
      : fc.record({ name: fc.constantFrom('a', 'b', 'c'), namespace: oneOf(NAMESPACES) });
    const spec = fields<PolicySpec>({
      stage: isCluster ? maybe(60, fc.constantFrom('Override', 'Default')) : fc.constant(undefined),
      appliedTo: appliedTo(isCluster),
      gateway: maybe(75, gatewayName()),
      to: maybe(50, fc.uniqueArray(oneOf(DESTINATIONS), { minLength: 1, maxLength: 3 })),
      except: maybe(25, fc.uniqueArray(oneOf(DESTINATIONS), { minLength: 1, maxLength: 2 })),
      action: weighted<string | undefined>(
        [6, fc.constant(undefined)],
        [3, fc.constant('Gateway')],
        [1, fc.constant('Direct')],
        [1, fc.constant('Drop')],
      ),
      address: address(),
      whenUnavailable: maybe(30, fc.constantFrom('Drop', 'Direct', 'Direct')),
      priority: maybe(50, fc.constantFrom(1, 10, 10, 1000, 1001, 2000)),
      mode: weighted<string | undefined>(
        [8, fc.constant(undefined)],
        [1, fc.constant('Enforce')],
        [1, fc.constant('Audit')],
      ),
      established: maybe(30, fc.constantFrom('Keep', 'Recheck')),
    });
    return fc.tuple(metadata, spec).map(([found, drawn]) => ({
      apiVersion: 'nodewall.io/v1alpha1',
      kind: isCluster ? 'ClusterEgressPolicy' : 'EgressPolicy',
      metadata: found as Manifest['metadata'],
      spec: drawn,
    }));
  });
}

function appliedTo(isCluster: boolean): fc.Arbitrary<Applied[]> {
  const podSelector = weighted<LabelSelector>([1, fc.constant({})], [2, selectorOver(podLabels)]);
  const namespaceSelector = namespaceSelectors();
  const ofNamespace = podSelector.map((selector): Applied => ({ podSelector: selector }));
  const ofCluster = weighted<Applied>(
    [3, ofNamespace],
    [2, namespaceSelector.map((selector) => ({ namespaceSelector: selector }))],
    [2, fc.record({ podSelector, namespaceSelector })],
    [3, podSubnets()],
  );
  const right = isCluster ? ofCluster : ofNamespace;
  const foreign = isCluster ? fc.constant<Applied>({}) : ofCluster;
  return weighted<Applied[]>(
    [30, fc.array(right, { minLength: 1, maxLength: 2 })],
    [1, fc.array(foreign, { maxLength: 1 })],
  );
}

function podSubnets(): fc.Arbitrary<Applied> {
  const subnets = [
    ...[
      '10.1.0.0/24',
      '10.1.0.0/25',
      '10.1.0.2/31',
      '10.1.1.4/32',
      '10.1.0.0/16',
      '10.9.0.0/29',
      '172.20.0.0/30',
    ],
    ...['fd01::/64', 'fd01::4/126', 'fd01:0:0:1::/64', 'fd01::/48', 'fd09::/16', '0.0.0.0/0', '::/0'],
  ];
  return fc.uniqueArray(oneOf(subnets), { minLength: 1, maxLength: 2 }).map((list) => ({ podSubnets: list }));
}

function address(): fc.Arbitrary<AddressSpec | undefined> {
  const place = fc.nat({ max: 9 }).map(String);
  return weighted<AddressSpec | undefined>(
    [4, fc.constant(undefined)],
    [2, fc.constant({ allocation: 'Shared' })],
    [4, fields({ allocation: fc.constant('Dedicated'), count: maybe(30, fc.integer({ min: 1, max: 3 })) })],
    [3, fields({ allocation: fc.constant('Fixed'), ipv4: place, ipv6: maybe(40, place) })],
    [1, fields({ allocation: fc.constant('Fixed'), ipv4: maybe(20, place), ipv6: place })],
  );
}
