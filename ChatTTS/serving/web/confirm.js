/** Asks before something is deleted. */

const $ = (id) => document.getElementById(id);
/** The time between the clicks of a double click, at most. */
export const DOUBLE_MS = 400;

/** @returns {Promise<boolean>} whether the user agrees. */
export function confirmed(question) {
  const dialog = $("confirm-dialog");
  $("confirm-text").textContent = question;
  dialog.returnValue = "no";
  $("confirm-yes").disabled = true; // the second click of two that opened the dialog is no answer
  setTimeout(() => ($("confirm-yes").disabled = false), DOUBLE_MS);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
