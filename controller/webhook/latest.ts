import type { ClusterGroup, Tier } from '../../apis/objects.ts';
import type { FieldMap } from '../../apis/schema/json-schema.ts';
import { checkGroups } from '../../apis/validate/groups.ts';
import { identityOf } from '../../apis/validate/metadata.ts';
import { validateObject } from '../../apis/validate/object.ts';
import { type NameReference, type Reference, referencesOf } from '../../apis/validate/references.ts';
import type { KubeApi } from '../kubeapi/kube-api.ts';
import { isKubeError } from '../kubeapi/kube-error.ts';
import type { AdmissionWorld } from './admission.ts';
import { MOST_NAMES } from './admit-body.ts';

interface LatestOptions {
  readonly request: KubeApi;
  /** Whether the watches are up to date. */
  readonly isCurrent: () => boolean;
}

/** The most concurrent reviews: clients are not authenticated. */
const MOST_REVIEWS = 8;
/**
 * Time limit for all objects of one round (milliseconds); there are two rounds, and the webhook has
 * 5 s.
 */
const TIMEOUT = 1_000;

type World = NonNullable<AdmissionWorld['objects']>;
type Named = Tier | ClusterGroup;

/**
 * Resolves with the world in which the Tiers and ClusterGroups that an object names, and the
 * groups that these name, are those of the API server now. Reads them only while the watches may be
 * behind, or if asked to; otherwise, and beyond the limits, resolves with null.
 */
export function latestWorld({ request, isCurrent }: LatestOptions) {
  let running = 0;
  return async (
    names: readonly NameReference[],
    world: AdmissionWorld,
    isAsked = false,
  ): Promise<AdmissionWorld | null> => {
    const { objects } = world;
    if (objects === null || (isCurrent() && !isAsked) || running >= MOST_REVIEWS) return null;
    running++;
    try {
      const named = await withNamed(request, names, objects);
      if (named === null) return null;
      const groups = named.fetched.filter((one): one is ClusterGroup => one.kind === 'ClusterGroup');
      const all = await withNamed(request, groups.flatMap(referencesOf), named.objects);
      return all === null ? null : withoutWaiting(world, all.objects);
    } finally {
      running--;
    }
  };
}

/** The groups that were read may themselves wait for a child group. */
function withoutWaiting(world: AdmissionWorld, objects: World): AdmissionWorld {
  const found = checkGroups(objects.groups, { invalid: world.waiting ?? new Set() });
  const waiting = new Set(found.flatMap(({ object, problem }) => (problem.isMissing ? [object] : [])));
  // An object that was read exists; one that was not found is not among the objects any more.
  const known = new Set<Named>([...(world.objects?.tiers ?? []), ...(world.objects?.groups ?? [])]);
  const unread = [...objects.tiers, ...objects.groups].filter((one) => known.has(one)).map(identityOf);
  const gone = new Set(unread.filter((identity) => world.gone?.has(identity)));
  if (waiting.size === 0) return { ...world, objects, gone };
  return {
    ...world,
    gone,
    objects: { ...objects, groups: objects.groups.filter((group) => !waiting.has(group)) },
    waiting: new Set([...(world.waiting ?? []), ...Array.from(waiting, identityOf)]),
  };
}

/** Null if there are too many. */
async function withNamed(
  request: KubeApi,
  references: readonly Reference[],
  world: World,
): Promise<{ readonly objects: World; readonly fetched: readonly Named[] } | null> {
  const paths = new Map<string, { readonly list: 'tiers' | 'groups'; readonly name: string }>();
  for (const reference of references) {
    if (!('name' in reference) || reference.to === 'interfaceGroup') continue;
    const { name } = reference;
    const list = reference.to === 'Tier' ? 'tiers' : 'groups';
    const plural = list === 'tiers' ? 'tiers' : 'clustergroups';
    paths.set(`/apis/nodewall.io/v1alpha1/${plural}/${encodeURIComponent(name)}`, { list, name });
  }
  if (paths.size > MOST_NAMES) return null;
  const signal = AbortSignal.timeout(TIMEOUT);
  const found = await Promise.all(
    [...paths].map(async ([path, { list, name }]) => ({
      list,
      name,
      now: await read(request, path, signal),
    })),
  );
  const next = { tiers: [...world.tiers], groups: [...world.groups] };
  const fetched: Named[] = [];
  for (const { list, name, now } of found) {
    if (now === undefined) continue;
    const others = (next[list] as Named[]).filter(
      (one) => one.name !== name || one.apiGroup !== 'nodewall.io',
    );
    if (now !== null) fetched.push(now);
    (next[list] as Named[]) = now === null ? others : [...others, now];
  }
  return { objects: { ...world, ...next }, fetched };
}

/** Null if it doesn't exist; undefined if that can't be determined. */
async function read(request: KubeApi, path: string, signal: AbortSignal): Promise<Named | null | undefined> {
  try {
    const { object } = validateObject(await request<FieldMap>({ method: 'GET', path, signal }));
    return object?.kind === 'Tier' || object?.kind === 'ClusterGroup' ? object : undefined;
  } catch (error) {
    return isKubeError(error, 'NotFound') ? null : undefined;
  }
}

/** Lets callers wait for another state of the cluster. */
export interface Changes {
  /**
   * Resolves at the next `happened`, at the latest after this time (milliseconds); then releases
   * its timer.
   */
  wait(milliseconds: number): Promise<void>;
  happened(): void;
  /** The number of waiting callers. */
  readonly waiting: number;
}

export function changeSignal(): Changes {
  const ends = new Set<() => void>();
  return {
    wait: (milliseconds) =>
      new Promise((resolve) => {
        const end = (): void => {
          clearTimeout(timer);
          ends.delete(end);
          resolve();
        };
        const timer = setTimeout(end, milliseconds);
        ends.add(end);
      }),
    happened() {
      for (const end of [...ends]) end();
    },
    get waiting() {
      return ends.size;
    },
  };
}
