/** A meta/v1 MicroTime. */
export function toMicroTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}
