/** The agent's own log, as far as it is used here (winston's Logger is one). */
export interface RecordLog {
  error(message: string, fields: object): unknown;
  warn(message: string, fields: object): unknown;
  info(message: string, fields: object): unknown;
}
