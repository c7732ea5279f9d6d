import { isDeepStrictEqual } from 'node:util';
import {
  type Definition,
  deletedUid,
  type LastDefinition,
  readDefinition,
  type StoredText,
} from '../../../apis/last-definition.ts';
import type { ClusterNetworkPolicy, ClusterObjects, Guardrail, Service } from '../../../apis/objects.ts';
import { asFields, type FieldMap } from '../../../apis/schema/json-schema.ts';
import { identityOf } from '../../../apis/validate/metadata.ts';
import { type ValidateOptions, validateObject } from '../../../apis/validate/object.ts';
import { referencesOf } from '../../../apis/validate/references.ts';
import { sameItems } from '../../../lib/sharing/lists.ts';
import { formatName } from '../../index/name-index.ts';
import { type Assembled, type AssembleInput, compareProblems } from '../assemble.ts';
import { assembler } from '../assembler.ts';
import { addObject, emptyContent, type FileContent, LIST_NAMES } from '../content.ts';
import { keepObjects, sameValue } from '../keep-objects.ts';
import { type LastValidVersions, NO_LAST_VALID } from '../last-valid-versions.ts';
import type { DefinitionUser, LastDefinitions, LoadProblem, WaitingObject } from '../source.ts';
import type { Narrow, StoreChange } from './object-store.ts';
import { GUARDRAIL, NODEWALL_API, type Resource } from './resources.ts';
import { rolloutReader } from './stored-object.ts';

type Documented = 'policies' | 'guardrails' | 'groups' | 'tiers';
type OfExtension = 'egressGateways' | 'egressPolicies' | 'insideNetworks';

export interface Settled extends Pick<ClusterObjects, Documented | OfExtension> {
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

/**
 * A policy, group or Tier, narrowed to the content of a file that holds only this object, so that
 * the rules for files apply to it.
 */
export interface Document {
  /** The object's uid; a different one means a different object with the same name. */
  readonly uid: string;
  readonly generation: number;
  readonly content: FileContent;
  /**
   * Set when this process sees the object, or definitions in its status, for the first time: the
   * version that the status says is in force instead, or with them.
   */
  readonly lastValid: ClusterNetworkPolicy | Guardrail | null;
  /** Those in the status; the same list while they do not change. */
  readonly definitions: readonly LastDefinition[];
  /** Those in the status that are not valid in this version; the same list likewise. */
  readonly unread: readonly StoredText[];
  /** The generation of which the status has the spec; null: of none. */
  readonly saved: number | null;
  /** The Services that it names, as `NAMESPACE/NAME`. */
  readonly services: readonly string[];
}

export function documenting(resource: Resource, options: ValidateOptions): Narrow<Document> {
  return ({ key, raw, version }, before) => {
    const { uid, generation } = raw.metadata as { uid?: unknown; generation?: unknown };
    const fresh = emptyContent(`${resource.name}/${key}`);
    addObject({ content: fresh, options, interned: new Map() }, raw, () => 0);
    const isOurs = NODEWALL_API.includes(resource);
    const withRollout = rolloutReader(raw, version, options, before?.content.policies.objects[0]?.rollout);
    const policies = isOurs ? fresh.policies.objects : [];
    for (const [i, policy] of policies.entries()) policies[i] = withRollout(policy);
    const content = withoutEmpty(keepObjects(fresh, before?.content ?? null));
    const mayStore = isOurs || resource === GUARDRAIL;
    const { definitions, unread } = mayStore ? definitionsIn(raw, options, before ?? NONE) : NONE;
    const isFirst = before === null || definitions !== before.definitions;
    const now = {
      uid: typeof uid === 'string' ? uid : '',
      generation: typeof generation === 'number' ? generation : 0,
      content,
      lastValid: null,
      definitions,
      unread,
      saved: savedIn(raw),
      services: servicesOf(content),
    };
    if (before !== null && isSame(now, before)) return before;
    const enforced = (): ClusterNetworkPolicy | null =>
      isOurs ? enforcedInPlaceOf(raw, options, withRollout) : null;
    return isFirst ? { ...now, lastValid: lastValidOf(now, enforced) } : now;
  };
}

type Stored = Pick<Document, 'definitions' | 'unread'>;

const NONE: Stored = { definitions: [], unread: [] };

/**
 * The definitions in a status were written before the objects could go, when one generation was in
 * force with them: if it is the present one, this is in force. If the present one came with it and
 * was not recorded any more, it is better than none.
 */
function lastValidOf(
  { definitions, generation, content }: Omit<Document, 'lastValid'>,
  enforced: () => ClusterNetworkPolicy | null,
): Document['lastValid'] {
  const present = content.policies.objects[0] ?? content.guardrails.objects[0] ?? null;
  if (definitions.length === 0) return enforced();
  const newest = Math.max(...definitions.map((one) => one.generation));
  return newest === generation ? present : (enforced() ?? present);
}

/** The same lists as before if they are the same. */
function definitionsIn(raw: FieldMap, options: ValidateOptions, before: Stored): Stored {
  const texts = Object.entries(asFields(asFields(raw.status)?.lastDefinitions) ?? {});
  const known = new Map([...before.definitions, ...before.unread].map(({ key, text }) => [key, text]));
  if (texts.length === known.size && texts.every(([key, text]) => known.get(key) === text)) return before;
  const definitions: LastDefinition[] = [];
  const unread: StoredText[] = [];
  for (const [key, text] of texts) {
    const found = readDefinition(key, text, options);
    if (found === null) unread.push({ key, text: String(text) });
    else definitions.push(found);
  }
  return { definitions, unread };
}

function savedIn(raw: FieldMap): number | null {
  const { enforcedGeneration: generation, enforcedSpec } = asFields(raw.status) ?? {};
  return typeof enforcedSpec === 'string' && typeof generation === 'number' ? generation : null;
}

/**
 * Reads the status that controller/status writes; null if there is none, or if it is not valid any
 * more.
 */
function enforcedInPlaceOf(
  raw: FieldMap,
  options: ValidateOptions,
  withRollout: (policy: ClusterNetworkPolicy) => ClusterNetworkPolicy,
): ClusterNetworkPolicy | null {
  const { enforcedGeneration: generation, enforcedSpec } = asFields(raw.status) ?? {};
  if (typeof enforcedSpec !== 'string') return null;
  try {
    const metadata = { ...asFields(raw.metadata), generation };
    const { object } = validateObject({ ...raw, metadata, spec: JSON.parse(enforcedSpec) }, options);
    return object?.kind === 'ClusterNetworkPolicy' ? withRollout(object) : null;
  } catch {
    // Only controllers write this field; a value that isn't JSON is ignored.
    return null;
  }
}

function isSame(now: Document, before: Document): boolean {
  if (now.uid !== before.uid || now.content.rejected.size !== before.content.rejected.size) return false;
  if (now.generation !== before.generation || now.saved !== before.saved) return false;
  if (now.definitions !== before.definitions || now.unread !== before.unread) return false;
  const { rejected: _, ...said } = now.content;
  const { rejected: __, ...was } = before.content;
  return sameValue(said, was);
}

/** Shares one object for all empty lists: there may be 75,000 documents, with eleven lists each. */
function withoutEmpty(content: FileContent): FileContent {
  const lists = LIST_NAMES.filter((list) => content[list].objects.length === 0);
  return { ...content, ...Object.fromEntries(lists.map((list) => [list, EMPTY[list]])) };
}

const EMPTY = emptyContent('');

function servicesOf({ policies, groups, undecided }: FileContent): readonly string[] {
  const objects = [...policies.objects, ...groups.objects];
  const own = objects.flatMap(referencesOf).flatMap((reference) => {
    return reference.to === 'Service' ? [formatName(reference.service)] : [];
  });
  return [...own, ...undecided.flatMap(({ otherwise }) => servicesOf(otherwise))];
}
