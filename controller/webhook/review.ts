import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';

/** The fields of an AdmissionReview's request (admission.k8s.io/v1) that are used here. */
export interface AdmissionRequest {
  readonly uid: string;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  /** The object to be stored; null for DELETE. */
  readonly object: FieldMap | null;
  /** The stored object; null for CREATE. */
  readonly oldObject: FieldMap | null;
}

/** One operation of a JSON patch (RFC 6902); `add` also replaces an existing field. */
export interface PatchOperation {
  readonly op: 'add';
  readonly path: string;
  readonly value: string;
}

/** The answer to a request. */
export interface Admission {
  /** Null: allowed. */
  readonly rejection: Rejection | null;
  readonly patch: readonly PatchOperation[];
  /** Shown by kubectl, one line each. */
  readonly warnings: readonly string[];
}

export interface Rejection {
  readonly reason: 'Invalid' | 'Conflict';
  /** One line for each problem. */
  readonly message: string;
  /**
   * Whether newer objects could change the result: the problem is a reference from or to another
   * object.
   */
  readonly isTransient: boolean;
}

const OPERATIONS: readonly unknown[] = ['CREATE', 'UPDATE', 'DELETE'];

/** Null if the document is not a v1 AdmissionReview of a CREATE, UPDATE or DELETE. */
export function parseReview(document: unknown): AdmissionRequest | null {
  const { apiVersion, kind, request } = asFields(document) ?? {};
  const { uid, operation, object, oldObject } = asFields(request) ?? {};
  if (apiVersion !== 'admission.k8s.io/v1' || kind !== 'AdmissionReview') return null;
  if (typeof uid !== 'string' || uid === '' || !OPERATIONS.includes(operation)) return null;
  return {
    uid,
    operation: operation as AdmissionRequest['operation'],
    object: asFields(object),
    oldObject: asFields(oldObject),
  };
}

const CODES = { Invalid: 422, Conflict: 409 } as const;

/**
 * The API server truncates warnings to this many characters, and all warnings of one answer to
 * 4096.
 */
const LONGEST_WARNING = 256;
const MOST_WARNINGS = 15;

/** The AdmissionReview with the response. */
export function formatReview({ uid }: AdmissionRequest, { rejection, patch, warnings }: Admission): object {
  const isPatched = rejection === null && patch.length > 0;
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    response: {
      uid,
      allowed: rejection === null,
      ...(rejection === null
        ? {}
        : {
            status: {
              status: 'Failure',
              code: CODES[rejection.reason],
              reason: rejection.reason,
              message: rejection.message,
            },
          }),
      ...(isPatched
        ? { patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(patch)).toString('base64') }
        : {}),
      ...(warnings.length === 0 ? {} : { warnings: shorten(warnings) }),
    },
  };
}

function shorten(warnings: readonly string[]): string[] {
  const shown = warnings.length > MOST_WARNINGS ? warnings.slice(0, MOST_WARNINGS - 1) : warnings;
  const lines = shown.map((text) => {
    return text.length > LONGEST_WARNING ? `${text.slice(0, LONGEST_WARNING - 1)}…` : text;
  });
  const left = warnings.length - shown.length;
  return left === 0 ? lines : [...lines, `and ${left} more warnings; nodewall validate shows all`];
}
