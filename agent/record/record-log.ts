/** The part of the agent's log that is used here (winston's Logger has it). */
export interface RecordLog {
  error(message: string, fields: object): unknown;
  warn(message: string, fields: object): unknown;
  info(message: string, fields: object): unknown;
}
