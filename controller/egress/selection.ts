import type { EgressAppliedTo, EgressPolicy } from '../../apis/egress/objects.ts';
import type { Labels, Pod } from '../../apis/objects.ts';
import { type Family, parseAddress } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { hasInterval } from '../../lib/net/range-index.ts';
import { firstAt } from '../../lib/sharing/lists.ts';
import { memo } from '../../lib/sharing/memo.ts';
import {
  canonicalRequirements,
  formatRequirements,
  type Requirements,
  type SelectorIndex,
  selectorIndex,
} from '../index/selector.ts';
import { intervalsOf, segments } from './segments.ts';

/** One item of `appliedTo`: all that is not null must hold. */
interface AppliedItem {
  readonly policy: EgressPolicy;
  /** Null: sources that are no pods too. */
  readonly pods: { readonly labels: Requirements; readonly namespace: Requirements } | null;
  readonly subnets: Readonly<Record<Family, readonly Interval[]>> | null;
}

/** Items that select pods, for the namespaces that one namespace selector selects. */
interface InNamespaces {
  readonly items: SelectorIndex<AppliedItem>;
  readonly remove: () => void;
}

/** Sources that the same policies select by podSubnets alone. */
interface SubnetItems {
  readonly range: Interval;
  readonly policies: readonly EgressPolicy[];
}

/** Finds the policies whose appliedTo selects a pod or a source, in a changing collection. */
export class EgressSelection {
  readonly #anywhere = selectorIndex<AppliedItem>();
  readonly #namespaces = selectorIndex<InNamespaces>();
  readonly #bySelector = new Map<string, InNamespaces>();
  #itemsIn = this.#namespaceItems();
  readonly #subnetItems = new Set<AppliedItem>();
  /** Null after a change of #subnetItems. */
  #subnets: Readonly<Record<Family, readonly SubnetItems[]>> | null = null;
  readonly #removers = new Map<EgressPolicy, (() => void)[]>();
  readonly itemsOf = memo(toItems);

  add(policy: EgressPolicy): void {
    this.#removers.set(
      policy,
      this.itemsOf(policy).map((item) => this.#addItem(item)),
    );
  }

  remove(policy: EgressPolicy): void {
    for (const remove of this.#removers.get(policy) ?? []) remove();
    this.#removers.delete(policy);
  }

  /** Sources that policies select whether they are pods or not; disjoint and sorted. */
  subnets(family: Family): readonly SubnetItems[] {
    this.#subnets ??= { 4: overlaid(this.#subnetItems, 4), 6: overlaid(this.#subnetItems, 6) };
    return this.#subnets[family];
  }

  /**
   * The policies that select the pod by its labels; a policy may be listed twice. Null: the pod's
   * address decides besides.
   */
  policiesOf(pod: Pod, namespace: Labels): EgressPolicy[] | null {
    const items = this.#itemsFor(pod, namespace);
    const isByAddress = this.#subnetItems.size > 0 || items.some(({ subnets }) => subnets !== null);
    return isByAddress ? null : items.map(({ policy }) => policy);
  }

  /** The policies that select the pod with this address; a policy may be listed twice. */
  policiesAt(pod: Pod, namespace: Labels, address: string): EgressPolicy[] {
    const named = this.#itemsFor(pod, namespace)
      .filter(({ subnets }) => isInSubnets(subnets, address))
      .map(({ policy }) => policy);
    return this.#subnetItems.size === 0 ? named : [...named, ...this.#subnetPolicies(address)];
  }

  #itemsFor(pod: Pod, namespace: Labels): AppliedItem[] {
    const items = this.#anywhere.matching(pod.labels);
    for (const there of this.#itemsIn(namespace)) there.items.matching(pod.labels, items);
    return items;
  }

  /** The items for a namespace, by its labels: found once, as long as #namespaces is the same. */
  #namespaceItems(): (labels: Labels) => readonly InNamespaces[] {
    return memo((labels: Labels) => this.#namespaces.matching(labels));
  }

  #subnetPolicies(text: string): readonly EgressPolicy[] {
    const address = parseAddress(text);
    if (address === null) return [];
    const subnets = this.subnets(address.family);
    const at = firstAt(0, subnets.length, (i) => (subnets[i]?.range.last ?? 0n) >= address.value);
    const found = subnets[at];
    return found !== undefined && found.range.first <= address.value ? found.policies : [];
  }

  #addItem(item: AppliedItem): () => void {
    if (item.pods === null) {
      this.#subnets = null;
      this.#subnetItems.add(item);
      return () => {
        this.#subnets = null;
        this.#subnetItems.delete(item);
      };
    }
    const { labels, namespace } = item.pods;
    if (namespace.length === 0) return this.#anywhere.add(labels, item);
    const key = formatRequirements(namespace);
    const there = this.#bySelector.get(key) ?? this.#addNamespaces(key, namespace);
    const remove = there.items.add(labels, item);
    return () => {
      remove();
      if (there.items.size === 0) there.remove();
    };
  }

  #addNamespaces(key: string, namespace: Requirements): InNamespaces {
    const there: InNamespaces = {
      items: selectorIndex(),
      remove: () => {
        removeSelector();
        this.#bySelector.delete(key);
        this.#itemsIn = this.#namespaceItems();
      },
    };
    const removeSelector = this.#namespaces.add(namespace, there);
    this.#bySelector.set(key, there);
    this.#itemsIn = this.#namespaceItems();
    return there;
  }
}

function overlaid(items: Iterable<AppliedItem>, family: Family): SubnetItems[] {
  const listed = [...items];
  const found: SubnetItems[] = [];
  for (const { range, active } of segments(listed.map(({ subnets }) => subnets?.[family] ?? [])))
    found.push({ range, policies: active.flatMap((i) => listed[i]?.policy ?? []) });
  return found;
}

export function isInSubnets(subnets: AppliedItem['subnets'], text: string | null): boolean {
  if (subnets === null) return true;
  const address = text === null ? null : parseAddress(text);
  return address !== null && hasInterval(subnets[address.family], address.value);
}

/** The items of `appliedTo`, ready to be tested. */
export function toItems(policy: EgressPolicy): readonly AppliedItem[] {
  return policy.spec.appliedTo.map((item) => ({
    policy,
    pods: podsOf(item, policy.namespace),
    subnets: item.podSubnets === undefined ? null : intervalsOf(item.podSubnets),
  }));
}

/** An EgressPolicy selects pods of its namespace only. */
function podsOf(item: EgressAppliedTo, namespace: string): AppliedItem['pods'] {
  const { podSelector, namespaceSelector } = item;
  if (namespace === '' && podSelector === undefined && namespaceSelector === undefined) return null;
  return {
    labels: canonicalRequirements(podSelector ?? {}),
    namespace: namespace === '' ? canonicalRequirements(namespaceSelector ?? {}) : inNamespace(namespace),
  };
}

function inNamespace(name: string): Requirements {
  return canonicalRequirements({ matchLabels: { 'kubernetes.io/metadata.name': name } });
}

type Values = ReadonlyMap<string, string | null>;

/** Ids by node and key, over successive versions: one copies only the nodes that changed. */
export class ByNode {
  #version: ReadonlyMap<string, Values> = new Map();
  readonly #changed = new Map<string, Map<string, string | null>>();

  set(node: string, key: string, id: string | null): void {
    this.#of(node).set(key, id);
  }

  delete(node: string, key: string): void {
    this.#of(node).delete(key);
  }

  /** The version with all changes so far; the last one if there were none. */
  advance(): ReadonlyMap<string, Values> {
    if (this.#changed.size === 0) return this.#version;
    const version = new Map([...this.#version, ...this.#changed]);
    for (const [node, values] of this.#changed) if (values.size === 0) version.delete(node);
    this.#changed.clear();
    this.#version = version;
    return version;
  }

  #of(node: string): Map<string, string | null> {
    let values = this.#changed.get(node);
    if (values === undefined) {
      values = new Map(this.#version.get(node));
      this.#changed.set(node, values);
    }
    return values;
  }
}
