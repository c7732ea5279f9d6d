/** The ipset command, typed. See README.md. */
export type {
  EntryOptions,
  Key,
  ListedSet,
  NetType,
  Port,
  SavedSet,
  SetEntry,
  SetStatus,
  TestKey,
} from './entry.ts';
export {
  type AddOperation,
  type CreateOperation,
  type DelOperation,
  type NameOperation,
  type PairOperation,
  type RestoreOperation,
  toOperations,
} from './entry.ts';
export { IpsetError, type IpsetErrorCode } from './errors.ts';
export {
  createExec,
  type Exec,
  ExecError,
  type ExecErrorCode,
  type ExecOptions,
  type ExecResult,
  type RealExecOptions,
} from './exec.ts';
export { toRestoreText, toSaveText } from './format.ts';
export { type CallOptions, type ExistOptions, Ipset, type RestoreOptions } from './ipset.ts';
export { parseList, parseSave } from './parse.ts';
export type { Extensions, HashOptions, Options, SetDefinition, SetFamily, SetRef, SetType } from './set.ts';
