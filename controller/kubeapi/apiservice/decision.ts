/** The APIService and the facts that it depends on. */
export interface RegistrationFacts {
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
export interface RegisteredApi {
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
 * removes it as soon as the namespace is being deleted.
 */
export function registrationAction(facts: RegistrationFacts): 'register' | 'remove' | 'leave' {
  const { isServing, isLast, isStopping, isNamespaceTerminating, caBundle, held } = facts;
  if (isNamespaceTerminating || isLast) return held === null ? 'leave' : 'remove';
  if (!isServing || isStopping || caBundle === undefined || held === undefined) return 'leave';
  return held !== null && isUpToDate(held, caBundle) ? 'leave' : 'register';
}

function isUpToDate({ service, caBundle }: RegisteredApi, wanted: string | null): boolean {
  const { namespace, name, port } = (service ?? {}) as Readonly<Record<string, unknown>>;
  const target = API_SERVICE_TARGET;
  const isOurs = namespace === target.namespace && name === target.name && port === target.port;
  return isOurs && (wanted === null || caBundle === wanted);
}
