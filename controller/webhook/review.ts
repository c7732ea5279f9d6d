import type { ClusterObject, Problem } from '../../apis/objects.ts';
import { asFields, type FieldMap } from '../../apis/schema/json-schema.ts';
import { claimedIdentity, displayName } from '../../apis/validate/metadata.ts';
import {
  type CrossProblem,
  formatPath,
  formatProblem,
  type ObjectProblem,
} from '../../apis/validate/problem.ts';
import type { ObjectChange } from '../impact/object-mirror.ts';
import type { Deletion } from '../status/definition-keeper.ts';

/** The fields of an AdmissionReview's request (admission.k8s.io/v1) that are used here. */
export interface AdmissionRequest {
  readonly uid: string;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  /** The object to be stored; null for DELETE. */
  readonly object: FieldMap | null;
  /** The stored object; null for CREATE. */
  readonly oldObject: FieldMap | null;
  /** Null: not readable, or too long. */
  readonly user: AdmissionUser | null;
  /** Nothing will be stored. */
  readonly isDryRun: boolean;
}

/** The user who sent the object: authentication.k8s.io/v1 UserInfo. */
interface AdmissionUser {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

/** Asks whether the user may choose an address of an egress gateway. */
export interface UseQuestion {
  readonly user: AdmissionUser;
  readonly gateway: string;
  /** The policy's namespace; '': it has none. */
  readonly namespace: string;
  /** As in `EgressPolicy/shop/bank: spec.address: allocation Fixed`. */
  readonly subject: string;
}

/** One operation of a JSON patch (RFC 6902); `add` also replaces an existing field. */
export interface AdmissionPatch {
  readonly op: 'add';
  readonly path: string;
  readonly value: string;
}

/** The answer to a request. */
export interface Admission {
  /** Null: allowed. */
  readonly rejection: Rejection | null;
  readonly patch: readonly AdmissionPatch[];
  /** Shown by kubectl, one line each. */
  readonly warnings: readonly string[];
  /** The object is allowed only if the user has this right. */
  readonly use?: UseQuestion;
  /** The object is allowed only if no Guardrail is broken by this; absent: none can be. */
  readonly change?: ObjectChange;
  /** A warning says that an object does not exist which this one names. */
  readonly isMissing?: true;
  /** The Tier or ClusterGroup may go only once those that use it have its definition. */
  readonly deletion?: Deletion;
}

const CODES = { Invalid: 422, Conflict: 409, Forbidden: 403, ServiceUnavailable: 503 } as const;

export interface Rejection {
  readonly reason: keyof typeof CODES;
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
  const { uid, operation, object, oldObject, userInfo, dryRun } = asFields(request) ?? {};
  if (apiVersion !== 'admission.k8s.io/v1' || kind !== 'AdmissionReview') return null;
  if (typeof uid !== 'string' || uid === '' || !OPERATIONS.includes(operation)) return null;
  return {
    uid,
    operation: operation as AdmissionRequest['operation'],
    object: asFields(object),
    oldObject: asFields(oldObject),
    user: readUser(userInfo),
    isDryRun: dryRun === true,
  };
}

/** Characters of a user as JSON: it is sent to the API server, by whoever reaches this one. */
const LONGEST_USER = 1 << 16;

function readUser(raw: unknown): AdmissionUser | null {
  const { username, uid = '', groups = [], extra = {} } = asFields(raw) ?? {};
  const fields = asFields(extra);
  if (typeof username !== 'string' || username === '' || typeof uid !== 'string') return null;
  if (!isTexts(groups) || fields === null || !Object.values(fields).every(isTexts)) return null;
  const user = { username, uid, groups, extra: fields as AdmissionUser['extra'] };
  return JSON.stringify(user).length > LONGEST_USER ? null : user;
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

/**
 * The API server truncates warnings to this many characters, and all warnings of one answer to
 * 4096.
 */
const LONGEST_WARNING = 256;
const MOST_WARNINGS = 15;

/** The AdmissionReview with the response. */
export function formatReview(
  { uid }: Pick<AdmissionRequest, 'uid'>,
  { rejection, patch, warnings }: Admission,
): object {
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

export const ALLOWED: Admission = { rejection: null, patch: [], warnings: [] };

/** All problems of the object itself that its validation lists; a few of those of others. */
export const MOST_OWN = 100;
export const MOST_OTHERS = 10;

export function refuse(
  lines: readonly string[],
  isTransient: boolean,
  reason: Rejection['reason'] = 'Invalid',
): Admission {
  return { ...ALLOWED, rejection: { reason, message: lines.join('\n'), isTransient } };
}

export function shown(problems: readonly CrossProblem<ClusterObject>[], most: number): string[] {
  const lines = problems.slice(0, most).map(({ object, problem }) => {
    return formatLine(object.kind, displayName(object), problem);
  });
  return problems.length > most ? [...lines, `and ${problems.length - most} more`] : lines;
}

/** The problems of an object as it was sent. */
export function problemLines(raw: FieldMap, problems: readonly ObjectProblem[]): string[] {
  const { kind, name } = claimedIdentity(raw);
  if (problems.length === 0) return [`${kind}/${name}: is of an unknown kind`];
  return problems.map((problem) => formatLine(kind, name, problem));
}

function formatLine(kind: string, name: string, { path, ...problem }: ObjectProblem): string {
  const whole: Problem = { ...problem, file: '', line: 0, kind, name, path: formatPath(path) };
  return formatProblem(whole);
}

/** Without severity and the object's name, which are added to all of its warnings. */
export function toWarning({ path, message }: ObjectProblem): string {
  return path.length === 0 ? message : `${formatPath(path)}: ${message}`;
}
