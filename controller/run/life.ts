/** What a controller is doing now. It is replaced, never changed in place. */
export interface Life {
  /** Somebody has told it to stop; it serves on until others can go on without it. */
  readonly isEnding: boolean;
  /** It stops now. */
  readonly isOver: boolean;
  readonly hasCertificate: boolean;
  /** It listens for agents and for those who read. */
  readonly isServing: boolean;
  /** It serves agents and writes statuses. */
  readonly isLeading: boolean;
}

/** What must be known before anything is served. */
export interface Readiness {
  /** The objects of the cluster are published. */
  readonly isListed: boolean;
  readonly isGateKnown: boolean;
}

export type LifeEvent =
  /** The first certificate, or the next. */
  | { readonly type: 'certificate' }
  /** The CA bundle may be another. */
  | { readonly type: 'trusted' }
  /** The CA of the API server's front proxy may be another. */
  | { readonly type: 'frontProxy' }
  /** The gate is another, or this replica is elected, or is no longer. */
  | { readonly type: 'changed' }
  /** The objects were compiled and published. */
  | { readonly type: 'published' }
  /** The other replicas, or the state of the namespace, are other. */
  | { readonly type: 'replicas' }
  /** `serve` is done. */
  | { readonly type: 'serving' }
  /** `lead` is done. */
  | { readonly type: 'leading' }
  | { readonly type: 'toldToStop' }
  /** A part failed, and the process can't go on without it. */
  | { readonly type: 'failed'; readonly error: unknown }
  /** All parts are to stop. */
  | { readonly type: 'over' };

/** What is done at once. */
export type Effect =
  /** Look what is due, after what is under way: `afterLook`. */
  | 'look'
  /** Wake those who wait for the cluster to be another. */
  | 'wake'
  /** Decide anew whether the APIService is as it should be. */
  | 'register'
  /** Give the certificate and the front proxy's CA to the servers that run. */
  | 'useTls'
  /** End the process with this error. */
  | { readonly giveUp: unknown };

/** What takes its time. */
export type Turn =
  /** End the streams of agents, and write no more statuses. */
  | 'resign'
  /** Listen; then event `serving`. */
  | 'serve'
  /** Write statuses; then event `leading`. */
  | 'lead';

/** What a life becomes, and what is to be done, in this order, one after the other. */
export interface Step<T> {
  readonly life: Life;
  readonly effects: readonly T[];
}

export const BEGINNING: Life = {
  isEnding: false,
  isOver: false,
  hasCertificate: false,
  isServing: false,
  isLeading: false,
};

/** Null, or why the controller can't serve anything. */
export function missing(life: Life, { isListed, isGateKnown }: Readiness): string | null {
  if (life.isOver) return 'stopping';
  if (!isListed) return 'the objects of the cluster have not all been listed yet';
  if (!isGateKnown) return 'the feature gate has not been read yet';
  if (!life.hasCertificate) return 'there is no serving certificate yet';
  return null;
}

export function afterEvent(life: Life, event: LifeEvent): Step<Effect> {
  switch (event.type) {
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
    case 'serving':
      return { life: { ...life, isServing: true }, effects: ['useTls', 'register'] };
    case 'leading':
      return { life: { ...life, isLeading: true }, effects: [] };
    case 'toldToStop':
      return { life: { ...life, isEnding: true }, effects: [] };
    case 'failed':
      return { life, effects: life.isOver ? [] : [{ giveUp: event.error }] };
    case 'over':
      return { life: { ...life, isOver: true }, effects: ['wake', 'look'] };
  }
}

/** Compares what the controller does with what it should do. `isLeader`: it is elected. */
export function afterLook(life: Life, readiness: Readiness, isLeader: boolean): Step<Turn> {
  const isDue = missing(life, readiness) === null;
  const leads = isDue && isLeader;
  const effects: Turn[] = [];
  if (!leads && life.isLeading) effects.push('resign');
  if (isDue && !life.isServing) effects.push('serve');
  if (leads && !life.isLeading) effects.push('lead');
  return { life: { ...life, isLeading: life.isLeading && leads }, effects };
}
