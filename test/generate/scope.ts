import type { GroupManifest } from '../oracle/manifest.ts';
import type { AddressPlan } from './address.ts';
import type { Feature } from './feature.ts';

/** What policies may name and which forms they may take. */
export interface Scope {
  features: ReadonlySet<Feature>;
  plan: AddressPlan | undefined;
  groups: GroupManifest[];
  /** Names that the configuration knows, and numbers. */
  interfaceGroups: (number | string)[];
}

/** What a rule's generator must know of its policy. */
export interface RuleContext {
  direction: 'ingress' | 'egress';
  /** Antrea's objects lack the fields that are ours alone. */
  isAntrea: boolean;
  scope: Scope;
}
