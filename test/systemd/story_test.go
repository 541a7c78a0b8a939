package systemd

import "testing"

// TestDebian12 and TestDebian13 tell the life of a package on a machine, from its
// installation to its purge.
func TestDebian12(t *testing.T) { t.Parallel(); story(t, "12") }

func TestDebian13(t *testing.T) { t.Parallel(); story(t, "13") }

// TestRPM: the other package on a machine that has rpm too, from its installation to
// its end. It is Debian's rpm, which knows of none of the things that it depends on.
func TestRPM(t *testing.T) {
	t.Parallel()
	m := start(t, "12")
	m.step("Install", rpmInstall)
	m.step("Converge", converge)
	m.step("Upgrade", rpmUpgrade)
	m.step("Erase", rpmErase)
}

func story(t *testing.T, release string) {
	m := start(t, release)
	m.step("Install", install)
	m.step("Sandbox", sandbox)
	m.step("Order", order)
	m.step("Sysctl", sysctl)
	m.step("Converge", converge)
	m.step("Privileges", privileges)
	m.step("Names", names)
	m.step("Access", access)
	m.step("Kubeconfig", kubeconfig)
	m.step("Journal", journal)
	m.step("JournalStuck", journalStuck)
	m.step("Reload", reload)
	m.step("Restart", restart)
	m.step("Kill", kill)
	m.step("Hang", hang)
	m.step("Networkd", networkd)
	m.step("Upgrade", upgrade)
	m.step("UpgradeRefused", upgradeRefused)
	m.step("StartRefused", startRefused)
	m.step("ReadyLate", readyLate)
	m.step("StopForGood", stopForGood)
	m.step("Reboot", reboot)
	m.step("Remove", remove)
	m.step("Purge", purge)
}
