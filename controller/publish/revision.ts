/**
 * How far the watches had come whose objects a state was compiled from: for each resource, in an
 * order that is the same in every controller, the resource version of its newest object or
 * deletion. Empty where the objects do not come from a cluster.
 */
export type Position = readonly number[];

/** A position in the stream of one hub. Opaque to receivers. */
export interface Revision {
  /** Identifies the hub. */
  readonly epoch: string;
  /** Counts the messages of the hub. */
  readonly number: number;
  readonly position: Position;
}

/** `EPOCH.NUMBER.POSITION`, or `EPOCH.NUMBER` without a position. Numbers of it have base 36. */
export function formatRevision({ epoch, number, position }: Revision): string {
  const versions = position.map((version) => version.toString(36)).join('-');
  return `${epoch}.${number}${versions === '' ? '' : `.${versions}`}`;
}

const FORM =
  /^(?<epoch>[^.]{1,64})\.(?<number>\d{1,15})(?:\.(?<versions>[0-9a-z]{1,11}(?:-[0-9a-z]{1,11}){0,31}))?$/;

/** Null if the text is not a revision. */
export function parseRevision(text: string): Revision | null {
  const { epoch = '', number, versions = '' } = FORM.exec(text)?.groups ?? {};
  if (number === undefined) return null;
  const position = versions === '' ? [] : versions.split('-').map((digits) => Number.parseInt(digits, 36));
  return { epoch, number: Number(number), position };
}
