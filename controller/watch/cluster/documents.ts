import { isDeepStrictEqual } from 'node:util';
import type { EgressObjects } from '../../../apis/egress/objects.ts';
import { type Definition, deletedUid } from '../../../apis/last-definition.ts';
import type { ClusterNetworkPolicy, ClusterObjects, Guardrail, Service } from '../../../apis/objects.ts';
import { identityOf } from '../../../apis/validate/metadata.ts';
import { sameItems } from '../../../lib/sharing/lists.ts';
import { type Assembled, type AssembleInput, compareProblems } from '../assemble.ts';
import { assembler } from '../assembler.ts';
import { emptyContent, type FileContent } from '../content.ts';
import { type LastValidVersions, NO_LAST_VALID } from '../last-valid-versions.ts';
import type { DefinitionUser, LastDefinitions, LoadProblem, WaitingObject } from '../source.ts';
import type { Document } from './document.ts';
import type { StoreChange } from './object-store.ts';

export interface Settled
  extends Pick<ClusterObjects, 'policies' | 'guardrails' | 'groups' | 'tiers' | keyof EgressObjects> {
  readonly problems: readonly LoadProblem[];
  /** The same array if they are the same objects. */
  readonly waiting: readonly WaitingObject[];
  readonly definitions: LastDefinitions;
}

/**
 * Combines policies, groups and Tiers to one state, by the same rules as for files: valid ones, and
 * the last valid version of the others.
 */
export class Documents {
  readonly #options: Pick<AssembleInput, 'interfaceGroups' | 'namespaceLimits'>;
  readonly #assembleNext = assembler();
  /** By the content's `file`, which consists of resource and name. */
  readonly #held = new Map<string, Document>();
  /** The number of documents that name each Service. */
  readonly #named = new Map<string, number>();
  /**
   * Files of objects that were replaced by another object of the same name: their last valid
   * versions must not be used.
   */
  readonly #replaced = new Set<string>();
  /** Those with definitions in their status, by the content's `file`. */
  readonly #defining = new Map<string, Document>();
  /**
   * Documents seen for the first time that have a last valid version from an earlier controller, or
   * definitions seen for the first time.
   */
  readonly #inherited: Document[] = [];
  #lastValid: LastValidVersions = NO_LAST_VALID;
  #services: FileContent = emptyContent(SERVICES);
  #lastServices: readonly Service[] | null = null;
  #isSettled = false;
  #settled: Settled = {
    policies: [],
    guardrails: [],
    groups: [],
    tiers: [],
    egressGateways: [],
    egressPolicies: [],
    insideNetworks: [],
    problems: [],
    waiting: [],
    definitions: NO_LAST_DEFINITIONS,
  };

  constructor(options: Pick<AssembleInput, 'interfaceGroups' | 'namespaceLimits'>) {
    this.#options = options;
  }

  change({ before, now }: StoreChange<Document>): void {
    this.#count(before, -1);
    this.#count(now, 1);
    this.#isSettled = false;
    if (now !== null) this.#held.set(now.content.file, now);
    else if (before !== null) this.#held.delete(before.content.file);
    const file = (now ?? before)?.content.file ?? '';
    if (now !== null && now.definitions.length + now.unread.length > 0) this.#defining.set(file, now);
    else this.#defining.delete(file);
    if (now?.lastValid != null) this.#inherited.push(now);
    if (before !== null && before.uid !== now?.uid) this.#replaced.add(before.content.file);
  }

  /**
   * `services` are all Services, sorted, to check which named ones exist. Unchanged lists and
   * objects are the same ones.
   */
  settle(all: readonly Service[]): Settled {
    if (this.#isSettled && all === this.#lastServices) return this.#settled;
    this.#lastServices = all;
    const there = namedServices(all, this.#named);
    if (this.#isSettled && sameNames(there, this.#services.services.objects)) return this.#settled;
    if (!sameNames(there, this.#services.services.objects)) this.#services = contentOf(there);
    // A deleted object without a successor is handled by the assembler as usual.
    this.#lastValid = without(
      this.#lastValid,
      [...this.#replaced].filter((file) => this.#held.has(file)),
    );
    this.#replaced.clear();
    this.#lastValid = withInherited(this.#lastValid, this.#inherited.splice(0));
    const assembled = this.#assembleNext({
      contents: [...Array.from(this.#held.values(), ({ content }) => content), this.#services],
      lastValidVersions: this.#lastValid,
      unreadable: [],
      lastValid: () => undefined,
      ...this.#options,
      egress: null,
    });
    this.#lastValid = assembled.lastValidVersions;
    this.#isSettled = true;
    this.#settled = toSettled(assembled, this.#definitions(assembled), this.#settled);
    return this.#settled;
  }

  #definitions({ definitions: used, gone: restored, objects, problems }: Assembled): LastDefinitions {
    const unsaved = problems.some(({ severity }) => severity === 'error')
      ? objects.policies.filter((policy) => this.#isUnsaved(policy)).map(identityOf)
      : [];
    const before = this.#settled.definitions;
    const isGone = (object: Definition): boolean =>
      restored.has(identityOf(object)) && !this.#held.has(fileOf(object));
    const gone = restored.size === 0 ? [] : [...objects.groups, ...objects.tiers].filter(isGone);
    if (used.size + this.#defining.size + unsaved.length + gone.length === 0) return NO_LAST_DEFINITIONS;
    const users = [...objects.policies, ...objects.guardrails].flatMap((object): DefinitionUser[] => {
      const { definitions: stored = [], unread = [] } = this.#defining.get(fileOf(object)) ?? {};
      const uses = used.get(identityOf(object)) ?? [];
      const { kind, apiGroup, name, uid, generation } = object;
      if (uses.length + stored.length + unread.length === 0) return [];
      return [{ kind, apiGroup, name, uid, generation, uses, stored, unread }];
    });
    const uids = new Set(
      users.flatMap(({ stored, unread }) => [...stored, ...unread].map(({ key }) => deletedUid(key))),
    );
    const live = uids.size === 0 ? [] : [...this.#held.values()].filter(({ uid }) => uids.has(uid));
    const now = {
      users,
      gone: new Set(gone.map(identityOf)),
      live: new Set(live.map(({ uid }) => uid)),
      unsaved: new Set(unsaved),
    };
    return isDeepStrictEqual(now, before) ? before : now;
  }

  #isUnsaved(policy: ClusterNetworkPolicy): boolean {
    const document = this.#held.get(fileOf(policy));
    if (policy.apiGroup !== 'nodewall.io' || document === undefined) return false;
    return document.generation !== policy.generation && document.saved !== policy.generation;
  }

  #count(document: Document | null, by: 1 | -1): void {
    for (const name of document?.services ?? []) {
      const uses = (this.#named.get(name) ?? 0) + by;
      if (uses === 0) this.#named.delete(name);
      else this.#named.set(name, uses);
    }
  }
}

const NO_LAST_DEFINITIONS: LastDefinitions = {
  users: [],
  gone: new Set(),
  live: new Set(),
  unsaved: new Set(),
};

const PLURALS = {
  ClusterNetworkPolicy: 'clusternetworkpolicies',
  Guardrail: 'guardrails',
  ClusterGroup: 'clustergroups',
  Tier: 'tiers',
} as const;

/** As `documenting` names it. */
function fileOf({ kind, apiGroup, name }: Definition | ClusterNetworkPolicy | Guardrail): string {
  return `${PLURALS[kind]}.${apiGroup}/${name}`;
}

const SERVICES = 'services';

/** Only the existence of Services matters here. */
function namedServices(services: readonly Service[], named: ReadonlyMap<string, number>): Service[] {
  if (named.size === 0) return [];
  return services.filter(({ namespace, name }) => named.has(`${namespace}/${name}`));
}

function sameNames(a: readonly Service[], b: readonly Service[]): boolean {
  return (
    a.length === b.length &&
    a.every((service, i) => service.name === b[i]?.name && service.namespace === b[i]?.namespace)
  );
}

function contentOf(services: Service[]): FileContent {
  const list = { objects: services, lines: services.map(() => 0), referenceLines: [] };
  return { ...emptyContent(SERVICES), services: list };
}

function without(versions: LastValidVersions, files: readonly string[]): LastValidVersions {
  if (files.length === 0) return versions;
  const removed = new Set(files);
  return new Map([...versions].filter(([, { file }]) => !removed.has(file)));
}

/** Versions in force already count more, and of several definitions of an object the newest. */
function withInherited(versions: LastValidVersions, documents: readonly Document[]): LastValidVersions {
  if (documents.length === 0) return versions;
  const definitions = documents
    .flatMap((document) => document.definitions)
    .sort((a, b) => (a.recorded < b.recorded ? -1 : 1));
  const entries = [
    ...documents.flatMap(({ content: { file }, lastValid: object }) =>
      object === null ? [] : [{ file, object }],
    ),
    ...definitions.map(({ object }) => ({ file: fileOf(object), object })),
  ].map((entry) => [identityOf(entry.object), entry] as const);
  return new Map([...entries, ...versions]);
}

/** The API group of a problem in a document of this name. */
function groupOf(file: string): Pick<LoadProblem, 'apiGroup'> {
  return /^[a-z]+\.crd\.antrea\.io\//.test(file) ? { apiGroup: 'crd.antrea.io' } : {};
}

/** Removes file and line, because an object from the API has neither. */
function toSettled(
  { objects, problems, waiting }: Assembled,
  definitions: LastDefinitions,
  before: Settled,
): Settled {
  const { policies, guardrails, groups, tiers, egressGateways, egressPolicies, insideNetworks } = objects;
  const now = problems
    .map((problem): LoadProblem => ({ ...problem, ...groupOf(problem.file), file: '', line: 0 }))
    .sort(compareProblems);
  const isSame = JSON.stringify(now) === JSON.stringify(before.problems);
  const lists = { policies, guardrails, groups, tiers, egressGateways, egressPolicies, insideNetworks };
  return {
    ...lists,
    problems: isSame ? before.problems : now,
    waiting: sameItems(waiting, before.waiting) ? before.waiting : waiting,
    definitions,
  };
}
