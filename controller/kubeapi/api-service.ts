import { asFields } from '../../apis/schema/json-schema.ts';
import { CONTROL_PLANE } from '../../apis/stream.ts';
import { BackOff } from '../../lib/process/back-off.ts';
import { cancellableSleep } from '../../lib/process/clock.ts';
import { type Following, followObject } from '../watch/cluster/follow-object.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import type { KubeApi } from './kube-api.ts';
import { isKubeError, orNull } from './kube-error.ts';

const NAME = `${CONTROL_PLANE.version}.${CONTROL_PLANE.group}`;
const API_VERSION = 'apiregistration.k8s.io/v1';
const PATH = `/apis/${API_VERSION}/apiservices/${NAME}`;
/** The ClusterRole of deploy/rbac.yaml. */
const OWNER = 'nodewall-controller';
const OWNER_API = 'rbac.authorization.k8s.io/v1';

interface RegistrationOptions {
  readonly request: KubeApi;
  /** Calls back once; returns the function that cancels it. */
  readonly after: (milliseconds: number, callback: () => void) => () => void;
  /** Returns the facts other than the APIService itself. */
  readonly facts: () => Omit<RegistrationFacts, 'held'>;
  readonly done: (action: 'register' | 'remove') => void;
  readonly failed: (error: unknown) => void;
}

/**
 * The least time between two writes or attempts (milliseconds), also if a third party keeps
 * overwriting the object.
 */
const LEAST = 1_000;
/** After several failures (milliseconds). */
const LONGEST = 30_000;

/** Time limit of the removal (milliseconds); the process may be about to end. */
const REMOVAL = 5_000;

/** Keeps the APIService as the facts require. Each `look` decides again. */
export class Registration {
  readonly #options: RegistrationOptions;
  readonly #pause: ReturnType<typeof cancellableSleep>;
  #held: RegisteredApi | null | undefined;
  #isDue = false;
  #isClosed = false;
  #running: Promise<void> | null = null;

  constructor(options: RegistrationOptions) {
    this.#options = options;
    this.#pause = cancellableSleep(options.after);
  }

  follow(following: Following): Reflector {
    return followObject<RegisteredApi>({
      ...following,
      apiVersion: API_VERSION,
      kind: 'APIService',
      plural: 'apiservices',
      name: NAME,
      read({ spec }) {
        const { service, caBundle } = asFields(spec) ?? {};
        return { service, caBundle };
      },
      changed: (now) => {
        this.#held = now;
        this.reconcile();
      },
    });
  }

  /** Called when a fact that the decision depends on changed. */
  reconcile(): void {
    this.#isDue = true;
    if (this.#running !== null || this.#isClosed) return;
    this.#running = this.#run();
  }

  /** Makes one last decision; resolves when it is carried out or has failed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#pause.wake();
    await this.#running;
    // The watch may not have shown yet what was written last, here or by another replica.
    this.#held = undefined;
    await this.#act().catch(this.#options.failed);
  }

  async #run(): Promise<void> {
    const waits = new BackOff({ first: LEAST, longest: LONGEST });
    while (this.#isDue && !this.#isClosed) {
      this.#isDue = false;
      let wait = 0;
      try {
        if (await this.#act()) wait = LEAST;
      } catch (error) {
        this.#options.failed(error);
        this.#isDue = true;
        wait = waits.next();
      }
      if ((wait > 0 || this.#isDue) && !this.#isClosed) await this.#pause.wait(Math.max(LEAST, wait));
    }
    this.#running = null;
  }

  /** Returns whether a write was necessary. */
  async #act(): Promise<boolean> {
    const facts = { ...this.#options.facts(), held: this.#held };
    const action = registrationAction(facts);
    if (action === 'leave') return false;
    if (action === 'register') await this.#register(facts.caBundle ?? null);
    else if (!(await this.#remove())) return false;
    this.#options.done(action);
    return true;
  }

  async #register(caBundle: string | null): Promise<void> {
    const body = {
      apiVersion: API_VERSION,
      kind: 'APIService',
      metadata: {
        name: NAME,
        labels: { 'app.kubernetes.io/part-of': 'nodewall' },
        ownerReferences: await this.#owners(),
      },
      spec: {
        ...CONTROL_PLANE,
        groupPriorityMinimum: 1000,
        versionPriority: 10,
        service: API_SERVICE_TARGET,
        ...(caBundle === null ? {} : { caBundle }),
      },
    };
    // Takes over fields that another version, or a user, applied before: the object belongs to the
    // controllers.
    const query = { fieldManager: 'nodewall-controller', force: 'true' };
    await this.#options.request({ method: 'PATCH', path: PATH, query, body, isApply: true });
  }

  async #owners(): Promise<object[]> {
    const path = `/apis/${OWNER_API}/clusterroles/${OWNER}`;
    try {
      const wanted = { method: 'GET', path } as const;
      const { metadata } = await this.#options.request<{ metadata: { uid: string } }>(wanted);
      return [{ apiVersion: OWNER_API, kind: 'ClusterRole', name: OWNER, uid: metadata.uid }];
    } catch (error) {
      // The controller has its permissions from another role: then only the controllers, or a user,
      // remove the object.
      if (isKubeError(error, 'NotFound')) return [];
      throw error;
    }
  }

  /** Returns whether it was there. */
  async #remove(): Promise<boolean> {
    const removed = this.#options.request({ method: 'DELETE', path: PATH, timeout: REMOVAL });
    const before = await orNull(removed);
    this.#held = null;
    return before !== null;
  }
}

/** The APIService and the facts that it depends on. */
export interface RegistrationFacts {
  /** False: the cluster has no aggregated API of ours. */
  readonly isWanted: boolean;
  /** Whether this replica serves requests. */
  readonly isServing: boolean;
  /** This controller stops, and no other one runs. */
  readonly isLast: boolean;
  /** This controller stops. */
  readonly isStopping: boolean;
  readonly isNamespaceTerminating: boolean;
  /**
   * Base64 of the CA certificates (PEM) that the API server verifies the controllers with; null:
   * the API server has them from elsewhere. Undefined: not known yet.
   */
  readonly caBundle: string | null | undefined;
  /** The APIService; null: it doesn't exist. Undefined: not read yet. */
  readonly held: RegisteredApi | null | undefined;
}

/** The relevant fields of an APIService. */
interface RegisteredApi {
  readonly service: unknown;
  readonly caBundle: unknown;
}

/** The Service at which the API server reaches the controllers. */
export const API_SERVICE_TARGET = {
  namespace: 'nodewall-system',
  name: 'nodewall-controller',
  port: 443,
} as const;

/**
 * Every replica that serves registers the API; the last one that stops removes it. Nodewall's
 * namespace can't be deleted while the API is registered and no replica serves it, so every replica
 * removes it as soon as the namespace is being deleted. Where it is not wanted, one that another
 * version registered is removed.
 */
export function registrationAction(facts: RegistrationFacts): 'register' | 'remove' | 'leave' {
  const { isWanted, isServing, isLast, isStopping, isNamespaceTerminating, caBundle, held } = facts;
  if (isNamespaceTerminating || isLast) return held === null ? 'leave' : 'remove';
  if (!isWanted) return held == null ? 'leave' : 'remove';
  if (!isServing || isStopping || caBundle === undefined || held === undefined) return 'leave';
  return held !== null && isUpToDate(held, caBundle) ? 'leave' : 'register';
}

function isUpToDate({ service, caBundle }: RegisteredApi, wanted: string | null): boolean {
  const { namespace, name, port } = (service ?? {}) as Readonly<Record<string, unknown>>;
  const target = API_SERVICE_TARGET;
  const isOurs = namespace === target.namespace && name === target.name && port === target.port;
  return isOurs && (wanted === null || caBundle === wanted);
}
