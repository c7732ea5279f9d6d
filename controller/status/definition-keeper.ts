import { isDeepStrictEqual } from 'node:util';
import {
  type Definition,
  definitionKey,
  deletedUid,
  isSameDefinition,
  type LastDefinition,
  LONGEST_DEFINITIONS,
  toDefinitionText,
} from '../../apis/last-definition.ts';
import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import type { WallClock } from '../../lib/process/clock.ts';
import { atOnce } from '../../lib/process/lane.ts';
import type { Log } from '../../lib/process/log.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import type { DefinitionUser, LastDefinitions, Snapshot } from '../watch/source.ts';
import type { FailureEvents } from './failure-events.ts';
import { isOfAnother, type StatusTarget, type StatusWriter } from './writer.ts';

/** A merge patch of `status.lastDefinitions`: null removes a key. */
export type DefinitionPatch = Readonly<Record<string, string | null>>;

/** By path. */
export const DEFINITION_TARGET: StatusTarget<DefinitionPatch> = {
  path: (name) => name,
  toPatch: (lastDefinitions) => ({ lastDefinitions }),
};

/** A Tier or ClusterGroup that is to be deleted, and those that are in force with it. */
export interface Deletion {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** It, and the groups that have it as a child. */
  readonly objects: readonly Definition[];
  readonly users: readonly DeletionUser[];
}

interface DeletionUser extends Pick<DefinitionUser, 'kind' | 'apiGroup' | 'name' | 'uid' | 'generation'> {
  /** Indexes of those in `objects` that it uses. */
  readonly uses: readonly number[];
}

interface DefinitionKeeperOptions {
  readonly writer: StatusWriter<DefinitionPatch>;
  /** Also of a controller that does not lead. */
  readonly request: KubeApi;
  readonly events: Pick<FailureEvents, 'referenceDeleted'>;
  readonly clock: WallClock & { date(): Date };
  readonly log: Log;
}

/** How many statuses are written at once before a deletion, and for how long (milliseconds). */
const AT_ONCE = 8;
const LONGEST_WRITING = 2_500;
/** When a definition was recorded that counts least. */
const LONG_AGO = new Date(0);
/** Names in a refusal or a line of the log. */
const MOST_NAMED = 10;

/**
 * Keeps the last definitions of deleted Tiers and ClusterGroups in the statuses of the policies and
 * Guardrails that are in force with them, so that these stay in force in a controller that starts
 * later. `keep` writes them before the API server deletes the object, in whichever controller it
 * asks; the leader writes those of deletions that no controller was asked about, and removes what
 * is nobody's. A key has the uid of the deleted object: once that does not exist, nobody writes the
 * key again.
 */
export class DefinitionKeeper {
  readonly #options: DefinitionKeeperOptions;
  #definitions: LastDefinitions | undefined;
  /** The last patch of each path. */
  #submitted = new Map<string, DefinitionPatch>();
  /** The users that were announced, by uid, with the objects. */
  #announced = new Map<string, string>();
  #leads = false;

  constructor(options: DefinitionKeeperOptions) {
    this.#options = options;
  }

  /** How many objects do not exist, and are in force as they were defined last. */
  count(): number {
    const used = this.#definitions?.users.flatMap(({ uses }) => uses.map(identityOf)) ?? [];
    return new Set(used).size;
  }

  publish({ definitions }: Pick<Snapshot, 'definitions'>): void {
    if (definitions === this.#definitions) return;
    this.#definitions = definitions;
    this.#reconcile();
  }

  /** If false, drops pending writes. */
  async lead(leads: boolean): Promise<void> {
    if (leads === this.#leads) return;
    this.#leads = leads;
    this.#submitted.clear();
    if (!leads) return this.#options.writer.clear();
    this.#reconcile();
  }

  /**
   * Writes the definitions that a deletion takes away into the statuses of those that use them.
   * Resolves within so many milliseconds with the reason why the object must not be deleted; null:
   * all statuses have them.
   */
  async keep(
    { objects, users, uid: deletion }: Deletion,
    milliseconds = LONGEST_WRITING,
  ): Promise<string | null> {
    const { clock } = this.#options;
    const antrea = users.filter(({ apiGroup }) => apiGroup !== 'nodewall.io');
    if (antrea.length > 0)
      return `${IN_USE} ${named(antrea)}, whose status can't have its definition; ${FIRST}`;
    const unsaved = users.filter(({ kind, apiGroup, name }) =>
      this.#definitions?.unsaved.has(`${kind}|${apiGroup}||${name}`),
    );
    if (unsaved.length > 0)
      return `${IN_USE} ${named(unsaved)}, whose version in force is not in its status; try again in a moment, or ${FIRST}`;
    const known = new Map(this.#definitions?.users.map((user) => [user.uid, user]));
    const due = users.flatMap((user) => {
      const { stored = [], unread = [] } = known.get(user.uid) ?? {};
      const present = new Map(stored.map((one) => [one.key, one]));
      const texts = new Map([...stored, ...unread].map(({ key, text }) => [key, text]));
      const patch: Record<string, string> = {};
      for (const object of user.uses.flatMap((index) => objects[index] ?? [])) {
        const key = definitionKey(object, deletion);
        // An earlier try wrote it, and had no time for all users.
        if (isStored(object, user.generation, present.get(key))) continue;
        patch[key] = toDefinitionText(object, user.generation, clock.date());
        texts.set(key, patch[key]);
      }
      return Object.keys(patch).length === 0 ? [] : [{ user, patch, length: lengthOf(texts) }];
    });
    const long = due.filter(({ length }) => length > LONGEST_DEFINITIONS);
    if (long.length > 0)
      return `${IN_USE} ${named(long.map(({ user }) => user))}, whose status has no room for its definition (${long[0]?.length} of ${LONGEST_DEFINITIONS} characters); ${FIRST}`;
    return await this.#writeAll(due, users.length, Math.min(milliseconds, LONGEST_WRITING));
  }

  /** @param all how many use the object, with those that have its definition already */
  async #writeAll(
    due: readonly { user: DeletionUser; patch: DefinitionPatch }[],
    all: number,
    milliseconds: number,
  ): Promise<string | null> {
    const { request, clock } = this.#options;
    const end = clock.now() + milliseconds;
    // One for all: an answer that comes later is of no use.
    const signal = AbortSignal.timeout(Math.max(0, Math.floor(milliseconds)));
    let failure: string | null = null;
    const notYet = `its definition is not yet in the statuses of all ${all} that use it; try again`;
    await atOnce(due, AT_ONCE, async ({ user, patch }) => {
      if (failure !== null || clock.now() > end) {
        failure ??= notYet;
        return;
      }
      const body = { metadata: { uid: user.uid }, status: DEFINITION_TARGET.toPatch(patch) };
      try {
        const path = `${pathOf(user)}/status`;
        const answer = await request<FieldMap>({ method: 'PATCH', path, body, signal });
        // An API server drops fields that its CustomResourceDefinition does not have.
        const stored = asFields(asFields(answer.status)?.lastDefinitions) ?? {};
        if (Object.keys(patch).some((key) => stored[key] !== patch[key])) failure ??= OLD_DEFINITIONS;
      } catch (error) {
        // Deleted meanwhile, or another of the same name, which then came after the deletion.
        if (signal.aborted) failure ??= notYet;
        else if (!isOfAnother(error))
          failure ??= `its definition can't be stored in the status of ${named([user])}: ${String((error as Error).message)}; try again`;
      }
    });
    return failure;
  }

  #reconcile(): void {
    if (!this.#leads || this.#definitions === undefined) return;
    const { users, live } = this.#definitions;
    const before = this.#submitted;
    this.#submitted = new Map();
    for (const user of users) {
      if (user.apiGroup !== 'nodewall.io') continue;
      const path = pathOf(user);
      const patch = this.#patchOf(user, live);
      if (Object.keys(patch).length === 0) {
        this.#options.writer.forget(path);
        continue;
      }
      this.#submitted.set(path, patch);
      if (isDeepStrictEqual(patch, before.get(path))) continue;
      this.#options.writer.submit(path, user.uid, patch, null);
      this.#sayUnread(user, patch);
    }
    for (const path of before.keys()) if (!this.#submitted.has(path)) this.#options.writer.forget(path);
    this.#announce(users);
  }

  /** Adds the definitions that the status lacks, and removes those that nobody needs. */
  #patchOf({ uses, stored, unread, generation }: DefinitionUser, live: ReadonlySet<string>): DefinitionPatch {
    const patch: Record<string, string | null> = {};
    const needed = new Set<string>();
    for (const object of uses) {
      const same = stored.filter((one) => isSameDefinition(one.object, object));
      const newest = same.toSorted((a, b) => (a.recorded < b.recorded ? 1 : -1))[0];
      const key = definitionKey(object, '');
      // A newer version can read it: its definition stays, and is newer than what is written here.
      const others = unread.filter((one) => one.key === key || one.key.startsWith(`${key}/`));
      for (const one of others) needed.add(one.key);
      if (newest !== undefined) needed.add(newest.key);
      else if (!needed.has(key)) {
        const recorded = others.length > 0 ? LONG_AGO : this.#options.clock.date();
        patch[key] = toDefinitionText(object, generation, recorded);
      }
    }
    for (const { key } of [...stored, ...unread]) {
      if (!needed.has(key) && patch[key] === undefined && !live.has(deletedUid(key))) patch[key] = null;
    }
    const texts = new Map([...stored, ...unread].map(({ key, text }) => [key, text]));
    for (const [key, text] of Object.entries(patch)) {
      if (text === null) texts.delete(key);
      else texts.set(key, text);
    }
    // The deletion was not admitted here; without room, it stays in the memory of controllers.
    if (lengthOf(texts) <= LONGEST_DEFINITIONS) return patch;
    return Object.fromEntries(Object.entries(patch).filter(([, text]) => text === null));
  }

  #sayUnread({ kind, name, unread }: DefinitionUser, patch: DefinitionPatch): void {
    const removed = unread.filter(({ key }) => patch[key] === null).map(({ key }) => key);
    if (removed.length === 0) return;
    const message =
      'definitions of deleted objects in a status are not valid in this version of nodewall; it is in force without them, and they are removed';
    this.#options.log.warn(message, { stage: 'status', kind, name, definitions: removed });
  }

  /** Once for each set of objects that a user is in force with. */
  #announce(users: readonly DefinitionUser[]): void {
    const announced = new Map<string, string>();
    for (const user of users) {
      if (user.uses.length === 0) continue;
      const objects = namesOf(user.uses);
      announced.set(user.uid, objects);
      if (this.#announced.get(user.uid) === objects) continue;
      const { kind, name } = user;
      this.#options.log.warn(staysText(user.uses), {
        stage: 'status',
        ...(kind === 'ClusterNetworkPolicy' ? { policy: name } : { kind, name }),
      });
      if (user.apiGroup === 'nodewall.io') this.#options.events.referenceDeleted(user, staysText(user.uses));
    }
    this.#announced = announced;
  }
}

const OLD_DEFINITIONS =
  'is in use, and the API server does not store its last definition: apply deploy/crds of this version';
const IN_USE = 'is in use by';
const FIRST = 'delete that first, or let it name another';
/** Says for the status of a policy or Guardrail, the log and an Event which definitions stay. */
export function staysText(uses: readonly Definition[]): string {
  return `it uses deleted objects, which stay in force as they were defined last: ${namesOf(uses)}; create them again, or name others`;
}

function namesOf(objects: readonly Definition[]): string {
  const names = objects.map(({ kind, name }) => `${kind} ${name}`).sort();
  return names.length > MOST_NAMED
    ? `${names.slice(0, MOST_NAMED).join(', ')} and ${names.length - MOST_NAMED} more`
    : names.join(', ');
}

function named(users: readonly Pick<DeletionUser, 'kind' | 'name'>[]): string {
  const names = users.slice(0, MOST_NAMED).map(({ kind, name }) => `${kind}/${name}`);
  return users.length > names.length
    ? `${names.join(', ')} and ${users.length - names.length} more`
    : names.join(', ');
}

function isStored(object: Definition, generation: number, stored: LastDefinition | undefined): boolean {
  return stored?.generation === generation && isSameDefinition(stored.object, object);
}

function lengthOf(texts: ReadonlyMap<string, string>): number {
  return [...texts].reduce((sum, [key, text]) => sum + key.length + text.length, 0);
}

function pathOf({ kind, name }: Pick<DeletionUser, 'kind' | 'name'>): string {
  const plural = kind === 'Guardrail' ? 'guardrails' : 'clusternetworkpolicies';
  return `/apis/nodewall.io/v1alpha1/${plural}/${encodeURIComponent(name)}`;
}
