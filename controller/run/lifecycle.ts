/** The state of a controller's life cycle. Immutable. */
export interface Lifecycle {
  /** It was asked to stop; it serves until others can continue without it. */
  readonly isEnding: boolean;
  /** It is stopping. */
  readonly isOver: boolean;
  /** When it has stopped, another one begins in its process. */
  readonly isAgain: boolean;
  readonly hasCertificate: boolean;
  /** Its port is open; while it does not serve, only its own metrics are answered there. */
  readonly isListening: boolean;
  /** It serves agents and readers. */
  readonly isServing: boolean;
  /** It serves agents and writes statuses. */
  readonly isLeading: boolean;
}

/** Facts that must be known before anything is served. */
interface Readiness {
  /** The objects of the cluster are published. */
  readonly isListed: boolean;
  readonly isGateKnown: boolean;
}

export type LifeEvent =
  /** There is a first or another certificate. */
  | { readonly kind: 'certificate' }
  /** The CA bundle may have changed. */
  | { readonly kind: 'trusted' }
  /** The CA of the API server's front proxy may have changed. */
  | { readonly kind: 'frontProxy' }
  /** The gate changed, or this replica was elected or lost the election. */
  | { readonly kind: 'changed' }
  /** The objects were compiled and published. */
  | { readonly kind: 'published' }
  /** The other replicas, or the state of the namespace, changed. */
  | { readonly kind: 'replicas' }
  /** `listen` is done. */
  | { readonly kind: 'listening' }
  /** `serve` is done. */
  | { readonly kind: 'serving' }
  /** `lead` is done. */
  | { readonly kind: 'leading' }
  | { readonly kind: 'stopRequested' }
  /** Another controller is to begin in the place of this one. */
  | { readonly kind: 'restartRequested' }
  /** A part failed without which the process can't continue. */
  | { readonly kind: 'failed'; readonly error: unknown }
  /** All parts must stop. */
  | { readonly kind: 'over' };

/** Reactions that take effect at once. */
export type LifeEffect =
  /** Check which turns are due (`afterLook`), after those in progress. */
  | 'look'
  /** Wake callers that wait for another state of the cluster. */
  | 'wake'
  /** Decide again about the APIService. */
  | 'register'
  /** Apply the certificate and the front proxy's CA to the running servers. */
  | 'useTls'
  /** End the process with this error. */
  | { readonly giveUp: unknown }
  /** Stop all parts, and begin again. */
  | 'restart';

/** Asynchronous work. */
export type Turn =
  /** End the streams of agents, and stop writing statuses. */
  | 'resign'
  /** Open the port for metrics; followed by event `listening`. */
  | 'listen'
  /** Answer agents and readers there; followed by event `serving`. */
  | 'serve'
  /** Write statuses; followed by event `leading`. */
  | 'lead';

/** The next state, and the effects in their order. */
interface Step<T> {
  readonly life: Lifecycle;
  readonly effects: readonly T[];
}

export const IDLE: Lifecycle = {
  isEnding: false,
  isOver: false,
  isAgain: false,
  hasCertificate: false,
  isListening: false,
  isServing: false,
  isLeading: false,
};

/** Null, or the reason why the controller can't serve anything. */
export function missing(life: Lifecycle, { isListed, isGateKnown }: Readiness): string | null {
  if (life.isOver) return 'stopping';
  if (!isListed) return 'the objects of the cluster have not all been listed yet';
  if (!isGateKnown) return 'the feature gate has not been read yet';
  if (!life.hasCertificate) return 'there is no serving certificate yet';
  return null;
}

export function afterEvent(life: Lifecycle, event: LifeEvent): Step<LifeEffect> {
  switch (event.kind) {
    case 'certificate':
      return { life: { ...life, hasCertificate: true }, effects: [life.hasCertificate ? 'useTls' : 'look'] };
    case 'trusted':
      return { life, effects: ['register'] };
    case 'frontProxy':
      return { life, effects: life.hasCertificate ? ['useTls'] : [] };
    case 'changed':
      return { life, effects: ['look'] };
    case 'published':
      return { life, effects: ['wake', 'look'] };
    case 'replicas':
      return { life, effects: ['register', 'wake'] };
    case 'listening':
      return { life: { ...life, isListening: true }, effects: ['useTls'] };
    case 'serving':
      return { life: { ...life, isServing: true }, effects: ['register'] };
    case 'leading':
      return { life: { ...life, isLeading: true }, effects: [] };
    case 'stopRequested':
      return { life: { ...life, isEnding: true }, effects: [] };
    case 'restartRequested':
      return life.isEnding
        ? { life, effects: [] }
        : { life: { ...life, isAgain: true }, effects: ['restart'] };
    case 'failed':
      return { life, effects: life.isOver ? [] : [{ giveUp: event.error }] };
    case 'over':
      return { life: { ...life, isOver: true }, effects: ['wake', 'look'] };
  }
}

/**
 * Compares the current state with the required one.
 * @param isLeader whether it is elected
 */
export function afterLook(life: Lifecycle, readiness: Readiness, isLeader: boolean): Step<Turn> {
  const isDue = missing(life, readiness) === null;
  const leads = isDue && isLeader;
  const effects: Turn[] = [];
  if (!leads && life.isLeading) effects.push('resign');
  if (life.hasCertificate && !life.isListening && !life.isOver) effects.push('listen');
  if (isDue && !life.isServing) effects.push('serve');
  if (leads && !life.isLeading) effects.push('lead');
  return { life: { ...life, isLeading: life.isLeading && leads }, effects };
}

/** A part of a process that is started and stopped. */
export interface NamedStep {
  readonly name: string;
  start?(): Promise<void> | void;
  /** Also called if the step was not started, or its start failed or has not finished. */
  stop?(): Promise<void> | void;
}

/** Starts steps in their order, and stops them in the reverse order, one after the other. */
export class Steps {
  readonly #steps: readonly NamedStep[];
  #isStopped = false;

  constructor(steps: readonly NamedStep[]) {
    this.#steps = steps;
  }

  /** Rejects with the error of the first step that fails. Starts no more steps after `stop`. */
  async start(): Promise<void> {
    for (const step of this.#steps) {
      if (this.#isStopped) return;
      await step.start?.();
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const step of this.#steps.toReversed()) await step.stop?.();
  }
}
