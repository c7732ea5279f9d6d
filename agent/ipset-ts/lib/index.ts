/** The ipset command for Node.js. See README.md. */
export { IpsetError, type IpsetErrorCode } from './errors.ts';
export { createExec, type Exec, ExecError, type ExecErrorCode, type ExecOptions } from './exec.ts';
export { Ipset } from './ipset.ts';
export {
  type AddOperation,
  type DelOperation,
  type NameOperation,
  type RestoreOperation,
  type SetDefinition,
  toRestoreText,
} from './operation.ts';
export { parseSave, type SavedSet } from './parse.ts';
