import type { Definition, LastDefinition, StoredText } from '../../apis/last-definition.ts';
import type {
  ApiGroup,
  ClusterGroup,
  ClusterNetworkPolicy,
  ClusterObjects,
  Guardrail,
  Problem,
} from '../../apis/objects.ts';

/** The result of reading manifests. */
export interface LoadedManifests {
  /** Valid objects only, sorted by namespace and name, each identity once. */
  readonly objects: ClusterObjects;
  /** Sorted by file, line and path. */
  readonly problems: readonly LoadProblem[];
  /** How many files were read. */
  readonly files: number;
}

export interface LoadProblem extends Problem {
  /** The file or directory could not be read at all. */
  readonly unreadable?: true;
  /** As that of an ObjectProblem. */
  readonly isMissing?: true;
  /** As that of an ObjectProblem; only while files are read. */
  readonly perKind?: true;
  /** The object's group, where it is not nodewall.io; known in a cluster alone. */
  readonly apiGroup?: ApiGroup;
}

/** An object that is valid, and not in force before one that it names is created. */
export type WaitingObject = ClusterGroup | ClusterNetworkPolicy | Guardrail;

/** A policy or Guardrail, and the last definitions that are its own. */
export interface DefinitionUser
  extends Pick<ClusterNetworkPolicy | Guardrail, 'kind' | 'apiGroup' | 'name' | 'uid' | 'generation'> {
  /** Those that it is in force with. */
  readonly uses: readonly Definition[];
  /** Those in its status. */
  readonly stored: readonly LastDefinition[];
  /** Those in its status that are not valid in this version: it is in force without them. */
  readonly unread: readonly StoredText[];
}

/** Tiers and ClusterGroups that are in force as they were defined last. */
export interface LastDefinitions {
  /** Those that use any, or have any in their status, in no order. */
  readonly users: readonly DefinitionUser[];
  /** Identities of the objects that do not exist and are in force. */
  readonly gone: ReadonlySet<string>;
  /** The uids in keys of `users` of objects that exist. */
  readonly live: ReadonlySet<string>;
  /** Identities of policies in force in a version that neither the API nor their status has. */
  readonly unsaved: ReadonlySet<string>;
}

export interface Snapshot extends LoadedManifests {
  /**
   * False while something that must be read at start can't be: `objects` is incomplete then, and
   * nothing enforced may be removed.
   */
  readonly complete: boolean;
  /** In a cluster: in no order; a last valid version may be in force instead. */
  readonly waiting?: readonly WaitingObject[];
  /** In a cluster; the same object while nothing of it changes. */
  readonly definitions?: LastDefinitions;
}

/** A source of Kubernetes objects: files, or the API of a cluster. */
export interface ObjectSource {
  /** Reads once and delivers, then delivers again after every change until closed. */
  start(deliver: (snapshot: Snapshot) => void): Promise<void>;
  close(): Promise<void>;
}
