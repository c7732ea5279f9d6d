/** What is known of the APIService and of what it depends on. */
export interface RegistrationFacts {
  /** Whether requests are answered here. */
  readonly isServing: boolean;
  /** This controller ends, and no other is there. */
  readonly isLast: boolean;
  /** This controller ends. */
  readonly isStopping: boolean;
  readonly isNamespaceTerminating: boolean;
  /**
   * Base64 of the CA certificates (PEM) by which to check our own; null: the API server is told
   * some other way. Undefined: not known yet.
   */
  readonly caBundle: string | null | undefined;
  /** The APIService; null: there is none. Undefined: not read yet. */
  readonly held: RegisteredApi | null | undefined;
}

/** What matters of an APIService. */
export interface RegisteredApi {
  readonly service: unknown;
  readonly caBundle: unknown;
}

/** Where the API server reaches the controllers. */
export const API_SERVICE_TARGET = {
  namespace: 'nodewall-system',
  name: 'nodewall-controller',
  port: 443,
} as const;

/**
 * Any replica that serves registers, the last one that ends removes. Nodewall's namespace can't be
 * deleted while the API is registered and nobody serves it, so as soon as it is being deleted every
 * replica removes.
 */
export function registrationAction(facts: RegistrationFacts): 'register' | 'remove' | 'leave' {
  const { isServing, isLast, isStopping, isNamespaceTerminating, caBundle, held } = facts;
  if (isNamespaceTerminating || isLast) return held === null ? 'leave' : 'remove';
  if (!isServing || isStopping || caBundle === undefined || held === undefined) return 'leave';
  return held !== null && isAsItShouldBe(held, caBundle) ? 'leave' : 'register';
}

function isAsItShouldBe({ service, caBundle }: RegisteredApi, wanted: string | null): boolean {
  const { namespace, name, port } = (service ?? {}) as Readonly<Record<string, unknown>>;
  const target = API_SERVICE_TARGET;
  const isOurs = namespace === target.namespace && name === target.name && port === target.port;
  return isOurs && (wanted === null || caBundle === wanted);
}
